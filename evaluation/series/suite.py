"""The suite `series`: our general detector beside others on SMD, ASD and NAB, on one split and one alarm budget.

For each set: VUS-PR, the mean over its machines; event F1 over all its events, every method at the threshold that lets
it raise the same number of false alarms, with how many each did raise; and the false alarms of each general detector
against the budget that it was given (`evaluation.series.kept`).
Bounds are those of a block bootstrap of the rows. Margins are ours less the best other's, drawn together.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from analytics.novelty.calibration import AlarmBudget
from analytics.scoring.bounds import block_draws, middle_share, rate_bounds
from analytics.scoring.events import EventMatches, match_events, threshold_at
from analytics.scoring.vus import vus_pr
from evaluation.rows import Effort, Progress, Row, at_least, at_most, data_root, step_counter
from evaluation.series.kept import Kept, kept_rows, kept_within
from evaluation.series.live import note_rate
from evaluation.series.methods import METHODS, Scores
from evaluation.workers import each
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray, MaskArray, TimeArray

SETS = ("smd", "asd", "nab")
# The share of a NAB series that is given for learning (Lavin and Ahmad, "Evaluating real-time anomaly detection
# algorithms", ICMLA 2015: the probationary period).
NAB_HEALTHY_SHARE = 0.15
SUITE = "series"
# An alarm per 1,000 rows is one in 17 hours at a minute, the default of `railwatch backtest` as well. Heuristic.
BUDGET_PER_1000_ROWS = 1.0
JOIN_ROWS = 10  # alarms this close are one, and an alarm this early is true; heuristic
BUDGET = AlarmBudget(per_1000_rows=BUDGET_PER_1000_ROWS, join_rows=JOIN_ROWS)
MAX_WINDOW = 100  # default of the authors' program for VUS
BLOCK_ROWS = 500  # many times what rows of these sets share, and some dozens of blocks a machine; heuristic
DRAWS, FULL_DRAWS = 60, 400
DRAWN_WINDOW_STEP = 25  # five windows instead of 101: their mean differs in the third digit
SEED = 20220815


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledSeries:
    """Machine: rows to learn from, rows to be scored ``(n_rows, n_columns)``, and which of these are events."""

    name: str
    healthy: FloatArray
    rows: FloatArray
    truth: MaskArray


def load_set(folder: Path, name: str) -> tuple[LabelledSeries, ...]:
    """Return every machine of one set, by name; EnvironmentLacksError where the folder holds none."""
    place = folder / name
    found = _nab(place) if name == "nab" else tuple(_npz(path) for path in sorted(place.glob("*.npz")))
    if not found:
        raise EnvironmentLacksError(f"{place}: no series of the set {name}; set RAILWATCH_DATA to where the sets are")
    return found


def _npz(path: Path) -> LabelledSeries:
    with np.load(path) as held:
        return LabelledSeries(
            name=path.stem,
            healthy=held["train"].astype(np.float64),
            rows=held["test"].astype(np.float64),
            truth=held["test_label"] > 0,
        )


def _nab(place: Path) -> tuple[LabelledSeries, ...]:
    windows = place / "windows.json"
    if not windows.exists():
        return ()
    events = json.loads(windows.read_text())
    return tuple(_nab_series(path, events.get(path.name, [])) for path in sorted(place.glob("*.csv")))


def _nab_series(path: Path, events: list[list[str]]) -> LabelledSeries:
    with path.open(newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    times = np.array([row[0][:19] for row in rows], dtype="datetime64[s]")
    truth = np.zeros(len(rows), dtype=np.bool_)
    for first, last in events:
        truth |= (times >= np.datetime64(first[:19])) & (times <= np.datetime64(last[:19]))
    values = np.array([[float(row[1])] for row in rows])
    cut = int(NAB_HEALTHY_SHARE * len(rows))
    return LabelledSeries(name=path.stem.split("__")[-1], healthy=values[:cut], rows=values[cut:], truth=truth[cut:])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Machine:
    """Results of every method on one machine: VUS-PR, its draws, and the counts of its blocks.

    `drawn` ``(n_methods, n_draws)``; `counts` ``(n_methods, n_blocks, 4)`` of events, finds, alarms and true alarms.
    """

    vus: FloatArray
    drawn: FloatArray
    counts: FloatArray
    kept: tuple[Kept, ...]


def series_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Score all methods on all machines; some minutes, or some tens of them in full."""
    folder = data_root(holds="smd, asd and nab")
    sets = {name: load_set(folder, name) for name in SETS}
    all_series = [series for of_set in sets.values() for series in of_set]
    done = step_counter(progress, len(all_series), "machines")
    machines = iter(list(each(partial(_machine, effort=effort), all_series, done=done)))
    for name, of_set in sets.items():
        found = list(islice(machines, len(of_set)))
        yield from _set_rows(name, found, n_rows=sum(len(series.rows) for series in of_set))
        yield from _live_rows(name, [series.healthy for series in of_set])


def _machine(series: LabelledSeries, effort: Effort) -> _Machine:
    scores = [method.scores(series.healthy, series.rows, effort.full) for method in METHODS]
    rng = np.random.default_rng(SEED)
    drawn = block_draws(len(series.rows), block_rows=BLOCK_ROWS, draws=FULL_DRAWS if effort.full else DRAWS, rng=rng)
    return _Machine(
        vus=np.array([vus_pr(ranked, series.truth, max_window=MAX_WINDOW) for ranked, _ in scores]),
        drawn=np.array([_drawn_vus(ranked, series, drawn) for ranked, _ in scores]),
        counts=np.array([_block_counts(found, series) for found in scores]),
        kept=kept_within(series.healthy, series.rows, series.truth, BUDGET),
    )


def _drawn_vus(ranked: FloatArray, series: LabelledSeries, drawn: TimeArray) -> FloatArray:
    return np.array(
        [
            vus_pr(ranked[rows], series.truth[rows], max_window=MAX_WINDOW, window_step=DRAWN_WINDOW_STEP)
            for rows in drawn
        ]
    )


def _block_counts(scores: Scores, series: LabelledSeries) -> FloatArray:
    """Count events, finds, alarms and true alarms by the block in which they begin ``(n_blocks, 4)``."""
    raised = scores[1]
    allowed = BUDGET_PER_1000_ROWS * len(raised) / 1000
    threshold = threshold_at(raised, series.truth, false_alarms=allowed, join_rows=JOIN_ROWS)
    matches = match_events(raised > threshold, series.truth, join_rows=JOIN_ROWS, early_rows=JOIN_ROWS)
    n_blocks = -(-len(raised) // BLOCK_ROWS)
    return np.stack([np.bincount(rows // BLOCK_ROWS, minlength=n_blocks) for rows in _begins(matches)], axis=1)


def _begins(matches: EventMatches) -> tuple[TimeArray, ...]:
    return (
        matches.event_rows,
        matches.event_rows[matches.is_found],
        matches.alarm_rows,
        matches.alarm_rows[matches.is_true],
    )


def _set_rows(name: str, machines: list[_Machine], *, n_rows: int) -> Iterator[Row]:
    vus = _mean_known(np.array([machine.vus for machine in machines]))
    yield from _compared(f"{name}.vus_pr", vus, _mean_known(np.array([machine.drawn for machine in machines])))
    counts = np.concatenate([machine.counts for machine in machines], axis=1)
    rng = np.random.default_rng(SEED)
    draws = machines[0].drawn.shape[1]
    blocks = rng.integers(0, counts.shape[1], (draws, counts.shape[1]))
    drawn = np.array([_f1(counts[:, rows].sum(axis=1)) for rows in blocks]).T
    yield from _compared(f"{name}.event_f1", _f1(counts.sum(axis=1)), drawn)
    yield from _budget_rows(name, counts.sum(axis=1), n_rows)
    yield from kept_rows(name, [machine.kept for machine in machines], BUDGET, suite=SUITE)


def _live_rows(name: str, healthy: list[FloatArray]) -> Iterator[Row]:
    """Yield the notes of the live detector on healthy rows, against the same budget; nothing for single columns."""
    rate = note_rate(healthy, BUDGET)
    if rate is not None:
        row = Row(suite=SUITE, name=f"{name}.unlabelled_alarms.live", value=rate.per_1000_rows)
        yield at_most(replace(row, low=rate.low, high=rate.high, unit="per 1000 windows"), BUDGET_PER_1000_ROWS)


def _budget_rows(name: str, counts: FloatArray, n_rows: int) -> Iterator[Row]:
    """Yield the false alarms that each method's event F1 cost, which none may have more of than the budget."""
    for method, (_, _, alarms, true_alarms) in zip(METHODS, counts.tolist(), strict=True):
        wrong = int(alarms - true_alarms)
        low, high = rate_bounds(wrong, n_rows / 1000)
        row = Row(suite=SUITE, name=f"{name}.event_f1_cost.{method.name}", value=wrong / n_rows * 1000)
        yield at_most(replace(row, low=low, high=high, unit="false alarms per 1000 rows"), BUDGET_PER_1000_ROWS)


def _compared(name: str, values: FloatArray, drawn: FloatArray) -> Iterator[Row]:
    """Yield a row a method, and the margin of ours, the first, over the best other."""
    for method, value, draws in zip(METHODS, values, drawn, strict=True):
        yield _row(f"{name}.{method.name}", float(value), draws)
    best = 1 + int(np.argmax(np.nan_to_num(values[1:])))
    margin = _row(f"{name}.margin_over_{METHODS[best].name}", float(values[0] - values[best]), drawn[0] - drawn[best])
    yield at_least(margin, 0.0)


def _mean_known(values: FloatArray) -> FloatArray:
    """Return the mean over the first axis of what is a number; NaN where nothing is, as in draws without an event."""
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    return np.asarray(mean, dtype=np.float64)


def _row(name: str, value: float, drawn: FloatArray) -> Row:
    low, high = middle_share(drawn) or (None, None)
    return Row(suite=SUITE, name=name, value=value if np.isfinite(value) else None, low=low, high=high)


def _f1(counts: FloatArray) -> FloatArray:
    """Return F1 of summed counts ``(n_methods, 4)``: twice recall times precision over their sum."""
    events, found, alarms, true_alarms = counts.T.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        recall, precision = found / events, np.where(alarms > 0, true_alarms / alarms, 0.0)
        f1 = 2 * recall * precision / (recall + precision)
    return np.where(found == 0, np.where(events > 0, 0.0, np.nan), f1)
