"""The suite `wallpower`: findings on real wall-power traces as they are, and with faults put in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from analytics.supply.log_estimate import window_resistances
from evaluation.detector_pipeline import DetectorPipeline
from evaluation.judgement.sightings import Sighting, sightings_of
from evaluation.judgement.table import CauseName
from evaluation.measures import Measured, median, rate, share
from evaluation.rows import Effort, Progress, Row, at_least, at_most, data_folder, measured_row, step_counter
from evaluation.wallpower.traces import FaultKind, WallTrace, read_trace, with_fault
from evaluation.workers import each
from simulator.files.part import FilePart
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.durations import DurationS
from telemetry.records import Incident, Severity

SUITE = "wallpower"
_row = partial(measured_row, SUITE)
WALLPOWER = Path(__file__).with_name("wallpower.yaml")
_DAY_S = 86_400.0
_STEP_ROWS = 10  # heuristic: ten seconds, as a slow poll of a PDU comes


class WallFault(FilePart):
    """Fault, and the answers that count."""

    kind: FaultKind
    size: float
    names: tuple[CauseName, ...]
    shows: tuple[CauseName, ...]


class ContactFault(FilePart):
    """A contact that costs another share `size` of the voltage at the largest current, and the accepted causes."""

    size: float
    window: DurationS
    accepted: tuple[CauseName, ...]


class WallGoals(FilePart):
    """Goals of the rows."""

    found: float
    named: float
    false_alarms: float
    contact_error: float


class WallPlan(FilePart):
    """The whole file."""

    folder: str
    plain_traces: Annotated[int, Field(ge=1)]
    failed_reading: float
    warm_up_ratio: Annotated[float, Field(ge=0.1, le=0.9)]
    within: DurationS
    min_rows: Annotated[int, Field(ge=10)]
    seed: int
    faults: dict[str, WallFault]
    contact: ContactFault
    goals: WallGoals


@dataclass(frozen=True, slots=True, kw_only=True)
class WallResult:
    """Trace: reports as it is; and for each fault when it was found (s) and whether it was named.

    `contact_error` is by how much the resistance of a worse contact came out wrong, as a share, None where the load
    does not move on both sides of it; `contact_wrong` how much was made of it that it is not.
    """

    duration_s: float
    false_alarms: int
    faults: dict[str, tuple[float | None, bool]]
    contact_error: float | None
    contact_wrong: int


def wallpower_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows; EnvironmentLacksError where the recordings are not there."""
    plan = load_document(WallPlan, WALLPOWER)
    paths = sorted(data_folder(plan.folder).glob("*.csv.gz"))
    if not effort.full:
        places = np.linspace(0, len(paths) - 1, min(plan.plain_traces, len(paths)))
        paths = [paths[int(place)] for place in np.unique(places.astype(np.intp))]
    work = [(path, plan.seed + number) for number, path in enumerate(paths)]
    results = [
        one for one in each(judge_path, work, done=step_counter(progress, len(paths), "traces")) if one is not None
    ]
    yield from rows_of(results, plan)


def judge_path(work: tuple[Path, int]) -> WallResult | None:
    """Read and judge one trace; None where it is too short for a before and an after."""
    path, seed = work
    plan = load_document(WallPlan, WALLPOWER)
    trace = read_trace(path, failed=plan.failed_reading)
    return judge_trace(trace, plan, seed=seed) if len(trace.time_ns) >= plan.min_rows else None


def judge_trace(trace: WallTrace, plan: WallPlan, *, seed: int) -> WallResult:
    """Judge a trace as it is, and with each fault at a time that the seed draws."""
    chance = np.random.default_rng(seed)
    usual = reported(trace)
    rows = {name: _onset(trace, plan, chance) for name in plan.faults}
    contact_row = _onset(trace, plan, chance)
    contact = with_fault(trace, FaultKind.RESISTANCE, size=plan.contact.size, row=contact_row)
    return WallResult(
        duration_s=trace.duration_s,
        false_alarms=sum(one.reported_at(Severity.WARNING) is not None for one in usual),
        faults={name: _faulty(trace, fault, rows[name], plan) for name, fault in plan.faults.items()},
        contact_error=_contact_error(contact, trace, contact_row, plan.contact),
        contact_wrong=sum(
            one.reported_at(Severity.WARNING) is not None and not one.text & {*plan.contact.accepted}
            for one in reported(contact)
        ),
    )


def _onset(trace: WallTrace, plan: WallPlan, chance: np.random.Generator) -> int:
    """Draw where a fault begins: in the second part, and early enough that the time in which it counts is there."""
    size = len(trace.time_ns)
    first = int(size * plan.warm_up_ratio)
    last = int(np.searchsorted(trace.time_ns, trace.time_ns[-1] - round(plan.within * NS_PER_S)))
    return int(chance.integers(first, max(last, first + 1)))


def _contact_error(spoiled: WallTrace, trace: WallTrace, row: int, fault: ContactFault) -> float | None:
    """Return the error of the resistance between the windows before and after, None where the load is steady in one.

    Put in is a share of the voltage that grows with the current: that share over the largest current, an ohm.
    """
    found = []
    for rows in (slice(0, row), slice(row, None)):
        time_s = (spoiled.time_ns[rows] - spoiled.time_ns[0]) / NS_PER_S
        _, ohms = window_resistances(
            time_s, spoiled.voltage_v[rows, 0], spoiled.current_a[rows, 0], window_s=fault.window
        )
        if not np.isfinite(ohms).any():
            return None
        found.append(float(np.nanmedian(ohms)))
    put_in_ohm = fault.size * float(np.nanmean(trace.voltage_v[:, 0])) / float(np.nanmax(trace.current_a[:, 0]))
    return abs((found[1] - found[0]) / put_in_ohm - 1.0)


def reported(trace: WallTrace) -> tuple[Sighting, ...]:
    """Return the incidents of a trace."""
    judge, frame = DetectorPipeline([trace.spec()], trace.topology()), trace.frame()
    records: list[Incident] = []
    for row in range(0, len(frame), _STEP_ROWS):
        records += judge.step([frame.rows(row, min(row + _STEP_ROWS, len(frame)))])
    return sightings_of(records)


def rows_of(results: Sequence[WallResult], plan: WallPlan) -> Iterator[Row]:
    """Yield the rows of judged traces."""
    days = sum(one.duration_s for one in results) / _DAY_S
    false = rate(sum(one.false_alarms for one in results), days)
    yield at_most(_row("false alarms per day, traces as they are", false), plan.goals.false_alarms)
    for name in plan.faults:
        found = [one.faults[name] for one in results]
        delays = [delay_s for delay_s, _ in found if delay_s is not None]
        yield at_least(_row(f"found: {name}", share(len(delays), len(found))), plan.goals.found)
        yield at_least(_row(f"named: {name}", share(sum(right for _, right in found), len(found))), plan.goals.named)
        yield at_most(_row(f"delay: {name}", median(delays), "s"), plan.within)
    errors = [one.contact_error for one in results if one.contact_error is not None]
    yield _row("worse contact: the load moves before and after it", share(len(errors), len(results)))
    yield at_most(_row("worse contact: error of its resistance", median(errors)), plan.goals.contact_error)
    wrong = Measured(value=float(sum(one.contact_wrong for one in results)))
    yield at_most(_row("worse contact: reported as something else", wrong), 0.0)


def _faulty(trace: WallTrace, fault: WallFault, row: int, plan: WallPlan) -> tuple[float | None, bool]:
    onset_ns = int(trace.time_ns[row])
    accepted = {*fault.names, *fault.shows}
    hits = [
        (at_ns, one)
        for one in reported(with_fault(trace, fault.kind, size=fault.size, row=row))
        if (at_ns := one.reported_at(Severity.INFO)) is not None
        and onset_ns <= at_ns <= onset_ns + round(plan.within * NS_PER_S)
        and one.text & accepted
    ]
    if not hits:
        return None, False
    first_ns, first = min(hits, key=lambda pair: pair[0])
    return (first_ns - onset_ns) / NS_PER_S, first.ranked[0].cause in fault.names
