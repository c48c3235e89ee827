"""The suite `pins`: findings on real sessions of a connector as they are, and with faults put in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from analytics.detectors.connector_pins import ConnectorPins
from analytics.detectors.limits import DetectorLimits
from evaluation.detector_pipeline import DetectorPipeline
from evaluation.injection import pins as injection
from evaluation.judgement.sightings import sightings_of
from evaluation.measures import Measured, median, rate, share
from evaluation.pins.fixed_rules import rules_broken
from evaluation.pins.sessions import Fault, Session, read_session, topology_of
from evaluation.rows import Effort, Progress, Row, at_least, at_most, data_folder, measured_row, step_counter
from simulator.files.part import FilePart, NotNegative, Positive
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.durations import DurationS
from telemetry.records import Cause, Finding, FindingStatus, Incident, Severity

SUITE = "pins"
_row = partial(measured_row, SUITE)
PLAN = Path(__file__).with_name("pins.yaml")
_HOUR_S = 3600.0
_STEP_ROWS = 20  # heuristic: ten seconds, as the guard gets them or later


class FaultKind(StrEnum):
    """Kind of fault put into a session."""

    OPEN = "open"
    CONTACT = "contact"
    VOLTAGE = "voltage"
    STUCK = "stuck"
    ZEROS = "zeros"


# A monitor that shows nothing is no fault of one pin.
_OF_MONITOR = (FaultKind.STUCK, FaultKind.ZEROS)
_SURE_MOHM = 5.0  # a goal holds for contacts that gained as much


class PinFault(FilePart):
    """Fault; `added_mohm` is the size of those of a contact."""

    kind: FaultKind
    added_mohm: NotNegative = 0.0

    @property
    def has_goal(self) -> bool:
        """True for faults that must be found; a voltage alone does not exceed a step of the monitor at a light load."""
        is_small = self.kind is FaultKind.CONTACT and self.added_mohm < _SURE_MOHM
        return self.kind is not FaultKind.VOLTAGE and not is_small

    def into(self, pin: int, *, path_mohm: float) -> Fault:
        """Return the function that puts this fault into a pin."""
        ohm = self.added_mohm / 1000.0
        faults: Mapping[FaultKind, Fault] = {
            FaultKind.OPEN: partial(injection.open_pin, pin=pin),
            FaultKind.CONTACT: partial(injection.worse_contact, pin=pin, ohm=ohm, path_ohm=path_mohm / 1000.0),
            FaultKind.VOLTAGE: partial(injection.dropped_voltage, pin=pin, ohm=ohm),
            FaultKind.STUCK: injection.stuck,
            FaultKind.ZEROS: injection.zeros,
        }
        return faults[self.kind]


class PinGoals(FilePart):
    """Goals of the rows."""

    false_per_hour: float
    found: float


class PinPlan(FilePart):
    """The whole file."""

    folder: str
    seed: int
    onsets: Annotated[int, Field(ge=1)]
    warm_up_ratio: Annotated[float, Field(ge=0.1, le=0.9)]
    within: DurationS
    loaded_from_a: Positive
    path_mohm: Positive
    faults: dict[str, PinFault]
    goals: PinGoals


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """Fault in one copy: from which row on, in which pin, and when it was found, None where it was not.

    `is_named` is True where the finding has the right cause and, of a contact, the right pin; `by_rules_s` is when
    fixed rules find it.
    """

    row: int
    pin: int
    found_s: float | None
    is_named: bool
    by_rules_s: float | None


def pin_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows; EnvironmentLacksError where the recordings are not there."""
    del effort  # the whole is quick
    plan = load_document(PinPlan, PLAN)
    sessions = [read_session(path) for path in sorted(data_folder(plan.folder).glob("*.csv.gz"))]
    done = step_counter(progress, len(sessions) * (1 + len(plan.faults)), "passes")
    false, hours = 0, 0.0
    for session in sessions:
        false += len(reported(session))
        hours += session.duration_s / _HOUR_S
        done()
    yield at_most(_row("false findings an hour, sessions as they are", rate(false, hours)), plan.goals.false_per_hour)
    rules = sum(bool(rules_broken(session.pins).any()) for session in sessions)
    yield _row("fixed rules: sessions with a false finding", Measured(value=float(rules)))
    for name, fault in plan.faults.items():
        found: list[Injected] = []
        for number, session in enumerate(sessions):
            found += judge_fault(session, fault, plan, seed=plan.seed + number)
            done()
        yield from _rows_of(name, fault, found, plan)


def reported(session: Session) -> tuple[str, ...]:
    """Return the incidents above information on a session as it is, by all detectors, as their text."""
    frames = (session.own_frame(), session.frame())
    judge = DetectorPipeline([frame.spec for frame in frames], topology_of(frames[1]))
    records: list[Incident] = []
    for row in range(0, len(frames[0]), _STEP_ROWS):
        until = min(row + _STEP_ROWS, len(frames[0]))
        records += judge.step([frame.rows(row, until) for frame in frames])
    warned = [one for one in sightings_of(records) if one.reported_at(Severity.WARNING) is not None]
    return tuple(" ".join(sorted(one.text)) for one in warned)


def judge_fault(session: Session, fault: PinFault, plan: PinPlan, *, seed: int) -> list[Injected]:
    """Judge copies of a session, each with the fault in one pin from one of several rows on."""
    rows = _onsets(session, fault, plan, np.random.default_rng(seed))
    cases = [(row, pin) for row in rows for pin in ((0,) if fault.kind in _OF_MONITOR else range(PIN_COUNT))]
    if not cases:
        return []
    frame = session.frame([(row, fault.into(pin, path_mohm=plan.path_mohm)) for row, pin in cases])
    detector = ConnectorPins(limits=DetectorLimits().connector_pins)
    state = detector.start(frame.spec)
    _, findings = detector.step(state, frame, topology_of(frame))
    by_gpu: dict[str, list[Finding]] = {}
    for one in findings:
        if one.status is FindingStatus.RAISED and one.severity is not Severity.INFO:
            by_gpu.setdefault(one.entity_id, []).append(one)
    return [
        _injected(session, fault, plan, case, by_gpu.get(gpu.id, []))
        for case, gpu in zip(cases, frame.spec.entities, strict=True)
    ]


def _onsets(session: Session, fault: PinFault, plan: PinPlan, chance: np.random.Generator) -> list[int]:
    """Return rows in the second part of a session at which a fault can show within the time in which it counts."""
    time_s, within_s = session.time_s, plan.within
    first = int(np.searchsorted(time_s, time_s[0] + plan.warm_up_ratio * session.duration_s))
    last = int(np.searchsorted(time_s, time_s[-1] - within_s))
    rows = np.arange(first, last)
    if fault.kind not in _OF_MONITOR:
        loaded = np.concatenate([[0], np.cumsum(session.total_a >= plan.loaded_from_a)])
        ends = np.searchsorted(time_s, time_s[rows] + within_s)
        rows = rows[(loaded[ends] - loaded[rows]) >= 0.5 * (ends - rows)]
    if not rows.size:
        return []
    return sorted(int(row) for row in chance.choice(rows, size=min(plan.onsets, rows.size), replace=False))


def _injected(
    session: Session, fault: PinFault, plan: PinPlan, case: tuple[int, int], findings: Sequence[Finding]
) -> Injected:
    row, pin = case
    onset_ns = int(session.frame().time_ns[row])
    until_ns = onset_ns + round(plan.within * NS_PER_S)
    hits = [one for one in findings if onset_ns <= one.time_ns <= until_ns]
    named = [one for one in hits if _names(one, fault, pin)]
    first = min(hits, key=lambda one: one.time_ns, default=None)
    spoiled = session.frame([(row, fault.into(pin, path_mohm=plan.path_mohm))]).values[:, 0]
    rules = rules_broken(injection.Pins(voltage_v=spoiled[:, :PIN_COUNT], current_a=spoiled[:, PIN_COUNT:]))
    broken = np.flatnonzero(rules[row:])
    rules_s = float(session.time_s[row + broken[0]] - session.time_s[row]) if broken.size else None
    return Injected(
        row=row,
        pin=pin,
        found_s=None if first is None else (first.time_ns - onset_ns) / NS_PER_S,
        is_named=bool(named),
        by_rules_s=rules_s if rules_s is not None and rules_s <= plan.within else None,
    )


def _names(finding: Finding, fault: PinFault, pin: int) -> bool:
    if fault.kind in _OF_MONITOR:
        return finding.cause is Cause.SENSOR_FAULT
    return finding.cause is Cause.JOINT_AGEING and finding.number("pin") == pin + 1


def _rows_of(name: str, fault: PinFault, found: Sequence[Injected], plan: PinPlan) -> Iterator[Row]:
    delays = [one.found_s for one in found if one.found_s is not None]
    rows = (
        _row(f"found: {name}", share(len(delays), len(found))),
        _row(f"named: {name}", share(sum(one.is_named for one in found), len(found))),
    )
    yield from (at_least(row, plan.goals.found) if fault.has_goal else row for row in rows)
    delay = _row(f"delay: {name}", median(delays), "s")
    yield at_most(delay, plan.within) if fault.has_goal else delay
    by_rules = sum(one.by_rules_s is not None for one in found)
    yield _row(f"fixed rules: {name}", share(by_rules, len(found)))
