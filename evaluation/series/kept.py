"""False alarms of each general detector against the budget that it was given, on labelled and on unlabelled rows.

Labelled: learnt from the healthy rows of a machine, counted on its labelled ones. Unlabelled: learnt from the first
share of the healthy rows, and every alarm in the rest counted as false, as nothing is known to be wrong there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.change.general import GeneralMethod, flag_rows
from analytics.novelty.calibration import MIN_HEALTHY_ROWS, AlarmBudget, alarm_rate
from analytics.scoring.events import EventMatches, match_events
from evaluation.rows import Row, at_most
from telemetry.frames import FloatArray, MaskArray, TimeArray

# The first share of the rows that `railwatch backtest` takes as healthy by default.
LEARNT_SHARE = 0.3
DETECTORS = tuple(GeneralMethod)
_UNIT = "per 1000 rows"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """Result of one detector on one machine.

    `false_rows` are the rows of `n_rows` at which false alarms began; `unlabelled_rows` those of alarms in
    `n_unlabelled` unlabelled rows. `flagged_rows` counts rows.
    """

    method: GeneralMethod
    false_rows: TimeArray
    n_rows: int
    unlabelled_rows: TimeArray
    n_unlabelled: int
    flagged_rows: int
    events: int
    found: int
    true_alarms: int


def kept_within(healthy: FloatArray, rows: FloatArray, truth: MaskArray, budget: AlarmBudget) -> tuple[Kept, ...]:
    """Return the result of each general detector on one machine."""
    return tuple(_kept(method, healthy, rows, truth, budget) for method in DETECTORS)


def _kept(method: GeneralMethod, healthy: FloatArray, rows: FloatArray, truth: MaskArray, budget: AlarmBudget) -> Kept:
    flag, matches = _matched(method, healthy, rows, truth, budget)
    cut = int(LEARNT_SHARE * len(healthy))
    alone = healthy[cut:] if cut >= MIN_HEALTHY_ROWS else healthy[:0]
    alarms = np.empty(0, dtype=np.int64)
    if len(alone):
        nothing = np.zeros(len(alone), dtype=np.bool_)
        alarms = _matched(method, healthy[:cut], alone, nothing, budget)[1].alarm_rows
    return Kept(
        method=method,
        false_rows=matches.alarm_rows[~matches.is_true],
        n_rows=len(rows),
        unlabelled_rows=alarms,
        n_unlabelled=len(alone),
        flagged_rows=int(flag.sum()),
        events=len(matches.event_rows),
        found=int(matches.is_found.sum()),
        true_alarms=int(matches.is_true.sum()),
    )


def _matched(
    method: GeneralMethod, healthy: FloatArray, rows: FloatArray, truth: MaskArray, budget: AlarmBudget
) -> tuple[MaskArray, EventMatches]:
    flag = flag_rows(method, healthy, rows, budget).flag[len(healthy) :]
    return flag, match_events(flag, truth, join_rows=budget.join_rows, early_rows=budget.join_rows)


def kept_rows(name: str, machines: Sequence[tuple[Kept, ...]], budget: AlarmBudget, *, suite: str) -> Iterator[Row]:
    """Yield the rates of each detector over the machines of the set `name`, and what it found within its budget."""
    for of_method in zip(*machines, strict=True):
        method = of_method[0].method
        suffix = "" if method is GeneralMethod.NOVELTY else f".{method}"
        labelled = [(one.false_rows, one.n_rows) for one in of_method]
        yield _rate_row(Row(suite=suite, name=f"{name}.false_alarms{suffix}", value=None), labelled, budget)
        unlabelled = [(one.unlabelled_rows, one.n_unlabelled) for one in of_method]
        yield _rate_row(Row(suite=suite, name=f"{name}.unlabelled_alarms{suffix}", value=None), unlabelled, budget)
        events, found = sum(one.events for one in of_method), sum(one.found for one in of_method)
        right = sum(one.true_alarms for one in of_method)
        alarms = right + sum(len(one.false_rows) for one in of_method)
        recall = found / events if events else None
        yield Row(suite=suite, name=f"{name}.recall{suffix}", value=recall, unit="of events")
        precision = right / alarms if alarms and events else None
        yield Row(suite=suite, name=f"{name}.precision{suffix}", value=precision, unit="of alarms")
        flagged = sum(one.flagged_rows for one in of_method) / sum(one.n_rows for one in of_method)
        yield Row(suite=suite, name=f"{name}.flagged{suffix}", value=flagged, unit="of rows")


def _rate_row(row: Row, counted: Sequence[tuple[TimeArray, int]], budget: AlarmBudget) -> Row:
    """Return the rate over machines laid end to end, against the budget."""
    begins = np.cumsum([0, *(n_rows for _, n_rows in counted)])
    if not begins[-1]:
        return replace(row, unit=_UNIT)
    places = np.concatenate([found + begin for (found, _), begin in zip(counted, begins[:-1], strict=True)])
    rate = alarm_rate(places, int(begins[-1]))
    return at_most(
        replace(row, value=rate.per_1000_rows, low=rate.low, high=rate.high, unit=_UNIT), budget.per_1000_rows
    )
