"""Outcomes of actions: the symptom before an action compared with the symptom after it.

Pure: rows, findings and decisions in, outcomes out. The verdict is due `verify_s` after the action and rests on the
rows since `settle_s`: the step in which the cap came does not count, nor heat that was stored before it. The value
before the action covers as many seconds up to it: a symptom that cleared by itself is credited to no action. An action
that was followed by new findings on the same entities is not credited with help either.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from analytics.incidents.families import STANDING
from rules.caps.board_bus import BOARD_ROUND_S
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.gpu import REASON_POWER_BRAKE
from telemetry.records import Cause, Decision, Finding, FindingStatus, Incident, Outcome, Severity

# A dozen training steps of about a second show a rail's new plateau; the two in which the cap came do not count.
SETTLE_S = 2.0
VERIFY_S = 12.0
# heuristic: a heat sink cools within tens of seconds, so only the last third of half a minute counts.
THERMAL_SETTLE_S = 20.0
THERMAL_VERIFY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMeasure:
    """Quantity by which the outcome of an action on a cause is judged.

    `evidence` names the evidence of the incident that holds the value before, None if it has none; `limit` names the
    evidence that holds the limit, or is the limit itself.
    """

    kind: EntityKind
    signal: str
    unit: str
    label: str
    higher_is_better: bool = False
    evidence: str | None = None
    limit: str | float | None = None
    settle_s: float = SETTLE_S
    verify_s: float = VERIFY_S

    @property
    def window_s(self) -> float:
        """Length of the measurement, before and after the action alike."""
        return self.verify_s - self.settle_s


_HEAT = OutcomeMeasure(
    kind=EntityKind.GPU,
    signal="gpu_temp_c",
    unit="°C",
    label="highest temperature",
    evidence="gpu_temp_c",
    settle_s=THERMAL_SETTLE_S,
    verify_s=THERMAL_VERIFY_S,
)
# Where a finding names no limit, as that of an ageing joint, the lowest voltage before and after is compared.
_RAIL = OutcomeMeasure(
    kind=EntityKind.SUPPLY,
    signal="voltage_v",
    unit="V",
    label="lowest voltage",
    higher_is_better=True,
    evidence="minimum_v",
    limit="limit_v",
)
# What is found on the node itself is found by its controller's reading of the board's bus: no supply's output shows it.
# Its newest reading may be from before the action.
_BOARD = replace(
    _RAIL,
    kind=EntityKind.NODE,
    signal="main_bus_voltage_v",
    settle_s=SETTLE_S + BOARD_ROUND_S,
    verify_s=VERIFY_S + BOARD_ROUND_S,
)
MEASURES = {
    Cause.SUPPLY_SAG: _RAIL,
    Cause.SUPPLY_OVERLOAD: _RAIL,
    Cause.SYNCHRONOUS_OVERLOAD: _RAIL,
    Cause.JOINT_AGEING: _RAIL,
    Cause.AIRFLOW: _HEAT,
    Cause.THERMAL_INTERFACE: _HEAT,
    Cause.THERMAL_MARGIN: _HEAT,
    Cause.POWER_BRAKE: OutcomeMeasure(
        kind=EntityKind.GPU,
        signal="throttle_reasons",
        unit="ratio",
        label="time under power brake",
        limit=0.0,
    ),
}
# A rail of the board that only its controller measures; its findings are those of these detectors.
_BOARD_RAIL = replace(_BOARD, kind=EntityKind.SUPPLY, signal="rail_voltage_v")
_BY_CONTROLLER = frozenset({"bus_rail", "converter_rail"})
_SIGNALS = frozenset(measure.signal for measure in (*MEASURES.values(), _BOARD, _BOARD_RAIL))
_KEPT_NS = int(max(measure.window_s for measure in MEASURES.values()) * NS_PER_S)


@dataclass(slots=True)
class _Measured:
    """Rows of one incident's symptom, summed up."""

    incident: Incident
    measure: OutcomeMeasure
    rows: int = 0
    worst: float = math.nan
    braked: int = 0


@dataclass(slots=True, kw_only=True)
class _Watch:
    """Action that is watched until its verdict.

    `was_over` is True if the symptom was gone before the action, or was not to be seen in what is measured.
    `new_findings` are the keys of findings that were raised or got worse since the rows settled.
    """

    decision: Decision
    begun_ns: int
    before: float | None
    was_over: bool
    after: _Measured
    new_findings: set[tuple[str, str]] = field(default_factory=set)

    @property
    def settled_ns(self) -> int:
        """Times from which rows and findings count."""
        return self.begun_ns + int(self.after.measure.settle_s * NS_PER_S)

    @property
    def entities(self) -> frozenset[str]:
        """Root entity of the incident, the entities it affects, and the targets of the action."""
        incident = self.after.incident
        return frozenset((incident.entity_id, *incident.affected, *self.decision.targets))


class OutcomeTracker:
    """Watches each executed decision until its outcome is known."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._severities: dict[tuple[str, str], Severity] = {}  # of the findings that hold
        self._recent: dict[str, deque[Frame]] = {}  # by table

    def begin(self, incident: Incident, decision: Decision, now_ns: int) -> None:
        """Start to watch an action that was applied; a tighter cap of the same rule restarts the watch."""
        measure = _measure_of(incident)
        if measure is None:
            return
        key = (incident.id, decision.rule)
        earlier = self._watches.get(key)
        if earlier is None:
            before, was_over = self._before(incident, measure, now_ns)
        else:
            before, was_over = earlier.before, earlier.was_over
        after = _Measured(incident, measure)
        self._watches[key] = _Watch(decision=decision, begun_ns=now_ns, before=before, was_over=was_over, after=after)

    def feed(self, frame: Frame) -> None:
        """Take in new rows."""
        self._keep(frame)
        for watch in self._watches.values():
            _take(watch.after, frame, since_ns=watch.settled_ns)

    def note_findings(self, findings: Iterable[Finding]) -> None:
        """Process findings: a symptom that is raised or gets worse after an action is evidence against it.

        A fault that lasts, such as an ageing joint, explains a symptom and is none: no cap can take it away.
        """
        for finding in findings:
            key = (finding.detector, finding.entity_id)
            if finding.status is FindingStatus.CLEARED:
                self._severities.pop(key, None)
                continue
            known = self._severities.get(key)
            self._severities[key] = finding.severity
            is_worse = known is not None and finding.severity.rank > known.rank
            is_new = finding.status is FindingStatus.RAISED or is_worse
            if not is_new or finding.severity is Severity.INFO or finding.cause in STANDING:
                continue
            for watch in self._watches.values():
                if finding.time_ns >= watch.settled_ns and finding.entity_id in watch.entities:
                    watch.new_findings.add(key)

    def step(self, now_ns: int) -> tuple[Outcome, ...]:
        """Return the outcomes that are due; if the clock was set back, each watch starts again."""
        for watch in self._watches.values():
            if now_ns < watch.begun_ns:
                watch.begun_ns, watch.after = now_ns, _Measured(watch.after.incident, watch.after.measure)
                watch.new_findings.clear()
        due = [
            key
            for key, watch in self._watches.items()
            if now_ns >= watch.begun_ns + int(watch.after.measure.verify_s * NS_PER_S)
        ]
        return tuple(_outcome(self._watches.pop(key), now_ns) for key in due)

    def forget(self, incident_ids: Sequence[str]) -> None:
        """Drop the watches of incidents that closed before the verdict."""
        for key in [key for key in self._watches if key[0] in incident_ids]:
            del self._watches[key]

    def _keep(self, frame: Frame) -> None:
        """Keep the rows of the last seconds for the value before the next action."""
        if not len(frame) or _SIGNALS.isdisjoint(frame.spec.signals):
            return
        kept = self._recent.setdefault(frame.spec.name, deque())
        if kept and frame.time_ns[0] < kept[-1].time_ns[-1]:  # the wall clock was set back
            kept.clear()
        kept.append(frame)
        oldest_ns = frame.time_ns[-1] - _KEPT_NS
        while kept[0].time_ns[-1] < oldest_ns:
            kept.popleft()

    def _before(self, incident: Incident, measure: OutcomeMeasure, now_ns: int) -> tuple[float | None, bool]:
        """Return the value just before an action, and whether the symptom was gone by then.

        A power brake that was found, still holds and is in none of the rows was found elsewhere: its share of time was
        not measured, so the value is None and no help can be measured either.
        """
        measured, since_ns = _Measured(incident, measure), now_ns - int(measure.window_s * NS_PER_S)
        for frame in (frame for frames in self._recent.values() for frame in frames):
            _take(measured, frame, since_ns=since_ns)
        before, limit = _value(measured), _limit(incident, measure)
        cleared = all(finding.status is FindingStatus.CLEARED for finding in incident.findings)
        if before is not None and limit is not None:
            is_over = _helped(None, before, limit, higher_is_better=measure.higher_is_better) is True
            return None if is_over and measure.evidence is None and not cleared else before, is_over
        if before is None and measure.evidence is not None:
            before = incident.number(measure.evidence)
        return before, cleared


def _measure_of(incident: Incident) -> OutcomeMeasure | None:
    measure = MEASURES.get(incident.cause)
    named = (incident.entity_id, *incident.affected)
    of_node = all(name.startswith(f"{EntityKind.NODE}:") for name in named)
    detectors = {finding.detector.partition(".")[0] for finding in incident.findings}
    if measure is _RAIL and of_node:
        return _BOARD
    return _BOARD_RAIL if measure is _RAIL and detectors and detectors <= _BY_CONTROLLER else measure


def _columns(frame: Frame, incident: Incident) -> list[int]:
    """Return the columns of the incident's entities; all columns if it is about another kind of entity."""
    wanted = {incident.entity_id, *incident.affected}
    named = any(name.startswith(f"{frame.spec.kind}:") for name in wanted)
    return [index for index, entity in enumerate(frame.spec.entities) if entity.id in wanted or not named]


def _take(measured: _Measured, frame: Frame, *, since_ns: int) -> None:
    """Add the rows of a frame since `since_ns`, if it has the signal that is measured."""
    measure = measured.measure
    if frame.spec.kind is not measure.kind or measure.signal not in frame.spec.signals:
        return
    values = frame.signal(measure.signal)[frame.time_ns >= since_ns][:, _columns(frame, measured.incident)]
    known: FloatArray = values[np.isfinite(values)]
    if known.size == 0:
        return
    measured.rows += known.size
    if measure.signal == "throttle_reasons":
        measured.braked += int(np.count_nonzero(known.astype(np.int64) & REASON_POWER_BRAKE))
    elif measure.higher_is_better:
        measured.worst = float(np.fmin(measured.worst, known.min()))
    else:
        measured.worst = float(np.fmax(measured.worst, known.max()))


def _value(measured: _Measured) -> float | None:
    if not measured.rows:
        return None
    return measured.braked / measured.rows if measured.measure.signal == "throttle_reasons" else measured.worst


def _limit(incident: Incident, measure: OutcomeMeasure) -> float | None:
    return incident.number(measure.limit) if isinstance(measure.limit, str) else measure.limit


def _outcome(watch: _Watch, now_ns: int) -> Outcome:
    measure, incident = watch.after.measure, watch.after.incident
    after, limit = _value(watch.after), _limit(incident, measure)
    helped = _helped(watch.before, after, limit, higher_is_better=measure.higher_is_better)
    verdict = {True: "helped", False: "did not help", None: "not clear"}[helped]
    if watch.was_over and (helped or limit is None):  # a symptom that is there under the action is no help either way
        helped, verdict = None, "not clear" if watch.before is None else "not clear: was over before the action"
    if helped and watch.new_findings:
        count = len(watch.new_findings)
        helped, verdict = None, f"not clear: {count} new finding{'' if count == 1 else 's'} since"
    return Outcome(
        id=f"outcome:{watch.decision.id}",
        time_ns=now_ns,
        incident_id=incident.id,
        decision_id=watch.decision.id,
        measure=measure.signal,
        unit=measure.unit,
        before=_rounded(watch.before),
        after=_rounded(after),
        helped=helped,
        higher_is_better=measure.higher_is_better,
        summary=f"{verdict}; {measure.label} {_text(watch.before, measure)} before, {_text(after, measure)} after",
    )


def _helped(before: float | None, after: float | None, limit: float | None, *, higher_is_better: bool) -> bool | None:
    if after is None:
        return None
    if limit is not None:
        return after >= limit if higher_is_better else after <= limit
    if before is None:
        return None
    return after > before if higher_is_better else after < before


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _text(value: float | None, measure: OutcomeMeasure) -> str:
    if value is None:
        return "not measured"
    return f"{100.0 * value:.3g} %" if measure.unit == "ratio" else f"{value:.2f} {measure.unit}"
