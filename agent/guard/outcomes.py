"""Did it help: the symptom before an action against the symptom after it.

Pure: rows and decisions in, outcomes out. A verdict falls `verify_s` after the action, over the rows since `settle_s`,
so that the step the GPUs were in when the cap came does not count, nor the heat that they had stored. Before it, as
many seconds up to the action count: what had recovered by itself until then is credited to no action.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Decision, FindingStatus, Incident, Outcome

# A dozen training steps of about a second show a rail's new plateau; the two in which the cap came do not count.
SETTLE_S = 2.0
VERIFY_S = 12.0
# A heat sink gives its heat off within tens of seconds, so only the last third of half a minute counts. Heuristic.
THERMAL_SETTLE_S = 20.0
THERMAL_VERIFY_S = 30.0
POWER_BRAKE_BIT = 0x80  # hardware power brake (nvmlClocksEventReasons, nvml.h)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The quantity that tells whether a cause was answered.

    `evidence` names the value before in the incident, None where it has none; `limit` names the evidence that holds
    the limit, or is the limit itself.
    """

    kind: EntityKind
    signal: str
    unit: str
    words: str
    higher_is_better: bool
    evidence: str | None
    limit: str | float | None
    settle_s: float
    verify_s: float

    @property
    def window_s(self) -> float:
        """Over how long it is taken, before as after."""
        return self.verify_s - self.settle_s


_HEAT = Measure(
    kind=EntityKind.GPU,
    signal="gpu_temp_c",
    unit="°C",
    words="highest temperature",
    higher_is_better=False,
    evidence="gpu_temp_c",
    limit=None,
    settle_s=THERMAL_SETTLE_S,
    verify_s=THERMAL_VERIFY_S,
)
# Where a finding names no limit, as that of an ageing joint, the lowest voltage before and after is compared.
_RAIL = Measure(
    kind=EntityKind.SUPPLY,
    signal="voltage_v",
    unit="V",
    words="lowest voltage",
    higher_is_better=True,
    evidence="minimum_v",
    limit="limit_v",
    settle_s=SETTLE_S,
    verify_s=VERIFY_S,
)
MEASURES = {
    Cause.SUPPLY_SAG: _RAIL,
    Cause.SUPPLY_OVERLOAD: _RAIL,
    Cause.SYNCHRONOUS_OVERLOAD: _RAIL,
    Cause.JOINT_AGEING: _RAIL,
    Cause.AIRFLOW: _HEAT,
    Cause.THERMAL_INTERFACE: _HEAT,
    Cause.THERMAL_MARGIN: _HEAT,
    Cause.POWER_BRAKE: Measure(
        kind=EntityKind.GPU,
        signal="throttle_reasons",
        unit="ratio",
        words="share of time under the power brake",
        higher_is_better=False,
        evidence=None,
        limit=0.0,
        settle_s=SETTLE_S,
        verify_s=VERIFY_S,
    ),
}
_SIGNALS = frozenset(measure.signal for measure in MEASURES.values())
_KEPT_NS = int(max(measure.window_s for measure in MEASURES.values()) * NS_PER_S)


@dataclass(slots=True)
class _Seen:
    """What rows showed of one incident's symptom."""

    incident: Incident
    measure: Measure
    rows: int = 0
    worst: float = math.nan
    braked: int = 0


@dataclass(slots=True, kw_only=True)
class _Watch:
    """An action that is followed; `well` says that the symptom was gone before it."""

    decision: Decision
    begun_ns: int
    before: float | None
    well: bool
    after: _Seen


class OutcomeTracker:
    """Follows each executed decision until it can say whether it helped."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._recent: dict[str, deque[Frame]] = {}  # by table

    def begin(self, incident: Incident, decision: Decision, now_ns: int) -> None:
        """Start to watch after an action was applied; a tighter cap of the same rule starts anew."""
        measure = MEASURES.get(incident.cause)
        if measure is None:
            return
        key = (incident.id, decision.rule)
        earlier = self._watches.get(key)
        before, well = self._before(incident, measure, now_ns) if earlier is None else (earlier.before, earlier.well)
        seen = _Seen(incident, measure)
        self._watches[key] = _Watch(decision=decision, begun_ns=now_ns, before=before, well=well, after=seen)

    def feed(self, frame: Frame) -> None:
        """Take in new rows."""
        self._keep(frame)
        for watch in self._watches.values():
            _take(watch.after, frame, since_ns=watch.begun_ns + int(watch.after.measure.settle_s * NS_PER_S))

    def step(self, now_ns: int) -> tuple[Outcome, ...]:
        """Return the outcomes that fell due; where the clock was set back, a watch begins anew."""
        for watch in self._watches.values():
            if now_ns < watch.begun_ns:
                watch.begun_ns, watch.after = now_ns, _Seen(watch.after.incident, watch.after.measure)
        due = [
            key
            for key, watch in self._watches.items()
            if now_ns >= watch.begun_ns + int(watch.after.measure.verify_s * NS_PER_S)
        ]
        return tuple(_outcome(self._watches.pop(key), now_ns) for key in due)

    def forget(self, incident_ids: Sequence[str]) -> None:
        """Drop the watches of incidents that closed before their verdict."""
        for key in [key for key in self._watches if key[0] in incident_ids]:
            del self._watches[key]

    def _keep(self, frame: Frame) -> None:
        """Keep the rows of the last seconds: an action may come at any time."""
        if not len(frame) or _SIGNALS.isdisjoint(frame.spec.signals):
            return
        kept = self._recent.setdefault(frame.spec.name, deque())
        if kept and frame.time_ns[0] < kept[-1].time_ns[-1]:  # the wall clock was set back
            kept.clear()
        kept.append(frame)
        oldest_ns = frame.time_ns[-1] - _KEPT_NS
        while kept[0].time_ns[-1] < oldest_ns:
            kept.popleft()

    def _before(self, incident: Incident, measure: Measure, now_ns: int) -> tuple[float | None, bool]:
        """Return what was measured just before an action, and whether the symptom was gone by then."""
        seen, since_ns = _Seen(incident, measure), now_ns - int(measure.window_s * NS_PER_S)
        for frame in (frame for frames in self._recent.values() for frame in frames):
            _take(seen, frame, since_ns=since_ns)
        before, limit = _value(seen), _limit(incident, measure)
        if before is not None and limit is not None:
            return before, _helped(None, before, limit, higher_is_better=measure.higher_is_better) is True
        if before is None and measure.evidence is not None:
            before = incident.number(measure.evidence)
        return before, all(finding.status is FindingStatus.CLEARED for finding in incident.findings)


def _columns(frame: Frame, incident: Incident) -> list[int]:
    """Return what the incident is about; everything of the kind where it is about another kind altogether."""
    wanted = {incident.entity_id, *incident.affected}
    named = any(name.startswith(f"{frame.spec.kind}:") for name in wanted)
    return [index for index, entity in enumerate(frame.spec.entities) if entity.id in wanted or not named]


def _take(seen: _Seen, frame: Frame, *, since_ns: int) -> None:
    """Take in the rows of a frame since then, where it has what is measured."""
    measure = seen.measure
    if frame.spec.kind is not measure.kind or measure.signal not in frame.spec.signals:
        return
    values = frame.signal(measure.signal)[frame.time_ns >= since_ns][:, _columns(frame, seen.incident)]
    known: FloatArray = values[np.isfinite(values)]
    if known.size == 0:
        return
    seen.rows += known.size
    if measure.signal == "throttle_reasons":
        seen.braked += int(np.count_nonzero(known.astype(np.int64) & POWER_BRAKE_BIT))
    elif measure.higher_is_better:
        seen.worst = float(np.fmin(seen.worst, known.min()))
    else:
        seen.worst = float(np.fmax(seen.worst, known.max()))


def _value(seen: _Seen) -> float | None:
    if not seen.rows:
        return None
    return seen.braked / seen.rows if seen.measure.signal == "throttle_reasons" else seen.worst


def _limit(incident: Incident, measure: Measure) -> float | None:
    return incident.number(measure.limit) if isinstance(measure.limit, str) else measure.limit


def _outcome(watch: _Watch, now_ns: int) -> Outcome:
    measure, incident = watch.after.measure, watch.after.incident
    after, limit = _value(watch.after), _limit(incident, measure)
    helped = _helped(watch.before, after, limit, higher_is_better=measure.higher_is_better)
    verdict = {True: "it helped", False: "it did not help", None: "nobody can tell"}[helped]
    if watch.well and (helped or limit is None):  # a symptom that is there under the action is no help either way
        helped, verdict = None, "it was over before the action, so nobody can tell"
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
        summary=f"{measure.words} {_said(watch.before, measure)} before, {_said(after, measure)} after: {verdict}",
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


def _said(value: float | None, measure: Measure) -> str:
    return "unknown" if value is None else f"{value:.2f} {measure.unit}".replace(" ratio", "")
