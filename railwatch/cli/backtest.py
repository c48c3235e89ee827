"""``railwatch backtest``: an anomaly score and a flag for every row of any table of series."""

import csv
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from analytics.change.general import Flagged, GeneralMethod, flag_rows
from analytics.novelty.calibration import MIN_HEALTHY_ROWS, AlarmBudget, AlarmRate, alarm_rate
from analytics.scoring.events import stretches
from railwatch.cli.logged_file import LoggedTable, read_table
from railwatch.cli.printing import pluralize, print_json, progress_bar
from railwatch.cli.run_folder import JsonFlag
from telemetry.errors import ConfigError, Problem
from telemetry.frames import FloatArray, TimeArray

# heuristic: each block of healthy rows is scored by a model of the others, so no quarter may hold all values.
LEAST_SHARE = 0.5
JOIN_ROWS = 10  # heuristic: alarms this close are one, as in the evaluation


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
        GeneralMethod, typer.Option("--method", help="novelty: all columns together; others: change of one column.")
    ] = GeneralMethod.NOVELTY,
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
    allowed = AlarmBudget(per_1000_rows=budget, join_rows=JOIN_ROWS)
    with progress_bar("scoring", len(values)) as done:
        flagged = flag_rows(method, values[:n_healthy], values[n_healthy:], allowed, done=done)
    _write(out, table, used, flagged)
    alarms = stretches(flagged.flag, join_rows=JOIN_ROWS)
    raised = alarm_rate(alarms[:, 0] - n_healthy, len(values) - n_healthy)
    fields = {
        "file": str(file),
        "out": str(out),
        "method": method.value,
        "rows": len(values),
        "columns": list(used),
        "left_out": _left_out(table, used),
        "backward_rows": int(table.backward.sum()),
        "healthy_rows": n_healthy,
        "budget_per_1000_rows": budget,
        "threshold": float(flagged.threshold[-1]),
        "alarms": len(alarms),
        "flagged_rows": int(flagged.flag.sum()),
        "alarms_per_1000_rows": _rate_fields(raised),
        "kept_per_1000_rows": _rate_fields(flagged.kept),
    }
    if as_json:
        print_json(fields)
        return
    typer.echo(_sentence(table, used, flagged, alarms=alarms, raised=raised))
    typer.echo(_kept(flagged.kept, budget))
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


def _write(out: Path, table: LoggedTable, used: tuple[str, ...], flagged: Flagged) -> None:
    columns = (table.times, flagged.score, flagged.flag, flagged.leading, flagged.level, flagged.threshold)
    with out.open("w", encoding="utf-8", newline="") as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("time", "score", "flag", "leading_column", "level", "threshold"))
        for time, score, flag, leading, level, threshold in zip(*columns, strict=True):
            named = used[leading] if leading >= 0 else ""
            rows.writerow((time, _number(score), int(flag), named, _number(level), _number(threshold)))


def _number(value: float) -> str:
    return f"{value:.6g}" if np.isfinite(value) else ""


def _sentence(
    table: LoggedTable, used: tuple[str, ...], flagged: Flagged, *, alarms: TimeArray, raised: AlarmRate
) -> str:
    n_healthy = len(table.times) - raised.rows
    parts = [
        f"the first {n_healthy} of {len(table.times)} rows, up to {table.times[n_healthy - 1]}, taken as healthy",
        f"{pluralize(raised.alarms, 'alarm')} in the {raised.rows} rows after them, {_bounded(raised)}",
    ]
    if len(alarms):
        first = int(alarms[0, 0])
        parts.append(f"the first at {table.times[first]}, led by {used[int(flagged.leading[first])]}")
    parts += [_why_left_out(name, table, n_healthy) for name in _left_out(table, used)]
    if table.backward.any():
        parts.append(f"{int(table.backward.sum())} rows with a time that goes back were not scored")
    return "; ".join(parts)


def _kept(kept: AlarmRate, budget: float) -> str:
    return f"budget {budget:g} false alarms in 1000 rows; on {kept.rows} healthy rows not seen before: {_bounded(kept)}"


def _bounded(rate: AlarmRate) -> str:
    return f"{rate.per_1000_rows:.2g} in 1000 (95 %: {rate.low:.2g} to {rate.high:.2g})"


def _rate_fields(rate: AlarmRate) -> dict[str, float]:
    return {"alarms": rate.alarms, "rows": rate.rows, "value": rate.per_1000_rows, "low": rate.low, "high": rate.high}


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
