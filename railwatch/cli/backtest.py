"""``railwatch backtest``: an anomaly score and a flag for every row of any table of series."""

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from analytics.change.table import ChangeMethod, change_scores, unseen_change_scores
from analytics.novelty.calibration import MIN_HEALTHY_ROWS, threshold_for, unseen_scores
from analytics.novelty.score import NoveltyModel, NoveltyScores, begin, fit, score_rows
from analytics.scoring.events import stretches
from railwatch.cli.logged_file import LoggedTable, read_table
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.errors import ConfigError, Problem
from telemetry.frames import FloatArray, MaskArray, TimeArray

SMALLEST_SCORE = 1e-3  # sums rest at zero, which has no logarithm; far below any threshold
BLOCK_ROWS = 4096  # rows scored between two steps of the progress bar
# heuristic: each block of healthy rows is scored by a model of the others, so no quarter may hold all values.
LEAST_SHARE = 0.5
JOIN_ROWS = 10  # heuristic: alarms this close are one, as in the evaluation


class BacktestMethod(StrEnum):
    """Method that scores the rows."""

    NOVELTY = "novelty"
    CUSUM = "cusum"
    EWMA = "ewma"
    PAGE_HINKLEY = "page-hinkley"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Scores, flags and leading columns of all rows ``(n_rows,)``; healthy rows are never flagged."""

    score: FloatArray
    flag: MaskArray
    leading: TimeArray
    threshold: float
    n_healthy: int


def backtest(
    file: Annotated[Path, typer.Argument(help="CSV file with a header (also .gz), rows in order of time.")],
    time: Annotated[str, typer.Option("--time", help="Column of times: numbers, or ISO 8601.")],
    out: Annotated[Path, typer.Option("--out", help="File for the scores: time, score, flag, leading column.")],
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Columns to score; default: every column of numbers.")
    ] = None,
    train_share: Annotated[
        float, typer.Option("--train-share", help="First share of the rows, taken as healthy (0..1).")
    ] = 0.3,
    budget: Annotated[
        float, typer.Option("--budget", help="Allowed false alarms per 1000 rows; sets the threshold.")
    ] = 1.0,
    method: Annotated[
        BacktestMethod, typer.Option("--method", help="novelty: all columns together; others: change of one column.")
    ] = BacktestMethod.NOVELTY,
    as_json: JsonFlag = False,
) -> None:
    """Score every row of a CSV table against its healthy first part, and flag anomalies."""
    _check(file, out, train_share=train_share, budget=budget)
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    if names == []:
        raise ConfigError.at("--columns", repr(columns), "names of columns, with commas between them")
    table = read_table(file, time=time, columns=names)
    used, values = _with_values(file, table, train_share)
    n_healthy = int(train_share * len(values))
    if method is BacktestMethod.NOVELTY:
        scored = _scored(values, n_healthy, budget)
    else:
        scored = _changed(ChangeMethod(method.value), values, n_healthy, budget)
    _write(out, table, used, scored)
    alarms = stretches(scored.flag, join_rows=JOIN_ROWS)
    fields = {
        "file": str(file),
        "out": str(out),
        "method": method.value,
        "rows": len(values),
        "columns": list(used),
        "left_out": _left_out(table, used),
        "backward_rows": int(table.backward.sum()),
        "healthy_rows": scored.n_healthy,
        "budget_per_1000_rows": budget,
        "threshold": scored.threshold,
        "alarms": len(alarms),
        "flagged_rows": int(scored.flag.sum()),
    }
    if as_json:
        print_json(fields)
        return
    typer.echo(_sentence(table, used, scored, alarms=alarms, budget=budget))
    typer.echo(f"{out}: a score and a flag for each of {len(values)} rows")


def _check(file: Path, out: Path, *, train_share: float, budget: float) -> None:
    problems = []
    if not 0 < train_share < 1:
        problems.append(
            Problem(where="--train-share", found=f"{train_share:g}", expected="a share above 0 and below 1")
        )
    if not 0 < budget <= 1000:
        problems.append(
            Problem(where="--budget", found=f"{budget:g}", expected="alarms per 1000 rows, above 0 and at most 1000")
        )
    if out.is_dir() or not out.parent.is_dir():
        problems.append(Problem(where="--out", found=str(out), expected="a file in a folder that exists"))
    elif out.exists() and file.exists() and out.samefile(file):
        problems.append(Problem(where="--out", found=str(out), expected="another file than FILE"))
    if problems:
        raise ConfigError(problems)


def _with_values(file: Path, table: LoggedTable, train_share: float) -> tuple[tuple[str, ...], FloatArray]:
    """Return the columns with values in the healthy part; ConfigError if it has too few rows."""
    n_healthy = int(train_share * len(table.values))
    if n_healthy < MIN_HEALTHY_ROWS:
        found = f"{n_healthy} healthy rows, a share of {train_share:g} of {len(table.values)}"
        raise ConfigError.at(file, found, f"at least {MIN_HEALTHY_ROWS}", key="--train-share")
    share = np.isfinite(table.values[:n_healthy]).mean(axis=0)
    kept = np.flatnonzero(share > LEAST_SHARE)
    if not kept.size:
        found = "no column with values in half of the healthy rows"
        raise ConfigError.at(file, found, "a healthy stretch with values", key="--train-share")
    return tuple(table.columns[place] for place in kept), table.values[:, kept]


def _scored(values: FloatArray, n_healthy: int, budget: float) -> Scored:
    healthy = values[:n_healthy]
    model = fit(healthy)
    threshold = threshold_for(unseen_scores(healthy), alarms_per_1000_rows=budget, join_rows=JOIN_ROWS)
    parts = list(_streamed(model, values))
    flag_score = np.concatenate([part.flag_score for part in parts])
    flag = flag_score > threshold
    flag[:n_healthy] = False
    return Scored(
        score=np.concatenate([part.score for part in parts]),
        flag=flag,
        leading=np.concatenate([part.leading for part in parts]),
        threshold=threshold,
        n_healthy=n_healthy,
    )


def _changed(method: ChangeMethod, values: FloatArray, n_healthy: int, budget: float) -> Scored:
    """Score changes of single columns after the healthy rows; each alarm restarts the score."""
    healthy = values[:n_healthy]
    blocks = tuple(np.maximum(block, SMALLEST_SCORE) for block in unseen_change_scores(method, healthy))
    threshold = threshold_for(blocks, alarms_per_1000_rows=budget, join_rows=JOIN_ROWS)
    learnt = change_scores(method, healthy, healthy)
    after = change_scores(method, healthy, values[n_healthy:], limit=threshold)
    score = np.concatenate([learnt.score, after.score])
    flag = score > threshold
    flag[:n_healthy] = False
    return Scored(
        score=score,
        flag=flag,
        leading=np.concatenate([learnt.leading, after.leading]),
        threshold=threshold,
        n_healthy=n_healthy,
    )


def _streamed(model: NoveltyModel, values: FloatArray) -> Iterator[NoveltyScores]:
    state = begin(model, values[:0])
    blocks = range(0, len(values), BLOCK_ROWS)
    console = Console(stderr=True)
    for first in track(blocks, "scoring", console=console, disable=not sys.stderr.isatty(), transient=True):
        state, scores = score_rows(model, state, values[first : first + BLOCK_ROWS])
        yield scores


def _write(out: Path, table: LoggedTable, used: tuple[str, ...], scored: Scored) -> None:
    with out.open("w", encoding="utf-8", newline="") as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("time", "score", "flag", "leading_column"))
        for time, score, flag, leading in zip(
            table.times, scored.score.tolist(), scored.flag.tolist(), scored.leading.tolist(), strict=True
        ):
            rows.writerow(
                (time, f"{score:.6g}" if leading >= 0 else "", int(flag), used[leading] if leading >= 0 else "")
            )


def _sentence(table: LoggedTable, used: tuple[str, ...], scored: Scored, *, alarms: TimeArray, budget: float) -> str:
    n_judged = len(table.times) - scored.n_healthy
    last = table.times[scored.n_healthy - 1]
    allowed = budget * n_judged / 1000
    parts = [
        f"the first {scored.n_healthy} of {len(table.times)} rows, up to {last}, taken as healthy",
        f"{len(alarms)} alarms in the {n_judged} rows after them (budget: {allowed:.3g} false alarms)",
    ]
    if len(alarms):
        first = int(alarms[0, 0])
        parts.append(f"the first at {table.times[first]}, led by {used[int(scored.leading[first])]}")
    parts += [_why_left_out(name, table, scored.n_healthy) for name in _left_out(table, used)]
    if table.backward.any():
        parts.append(f"{int(table.backward.sum())} rows with a time that goes back were not scored")
    return "; ".join(parts)


def _left_out(table: LoggedTable, used: tuple[str, ...]) -> list[str]:
    return sorted({*table.text_columns, *table.columns} - set(used))


def _why_left_out(name: str, table: LoggedTable, n_healthy: int) -> str:
    if name in table.text_columns:
        return f"left out: {name}, has cells that are not numbers"
    numbers = int(np.isfinite(table.values[:n_healthy, table.columns.index(name)]).sum())
    return (
        f"left out: {name}, only {numbers} of {n_healthy} healthy rows have numbers, "
        f"more than {LEAST_SHARE:.0%} are needed"
    )
