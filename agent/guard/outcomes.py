"""Did it help: the symptom before an action against the symptom after it.

Pure: rows and decisions in, outcomes out. A verdict falls `verify_s` after the action, over the rows since `settle_s`,
so that the step the GPUs were in when the cap came does not count, nor the heat that they had stored.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Decision, Incident, Outcome

# A dozen training steps of about a second show a rail's new plateau; the two in which the cap came do not count.
SETTLE_S = 2.0
VERIFY_S = 12.0
# A heat sink gives its heat off within tens of seconds, so only the last third of half a minute counts. Own choice.
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


@dataclass(slots=True)
class _Watch:
    incident: Incident
    decision: Decision
    measure: Measure
    before: float | None
    begun_ns: int
    rows: int = 0
    worst: float = math.nan
    braked: int = 0


class OutcomeTracker:
    """Follows each executed decision until it can say whether it helped."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], _Watch] = {}

    def begin(self, incident: Incident, decision: Decision, now_ns: int) -> None:
        """Start to watch after an action was applied; a tighter cap of the same rule starts anew."""
        measure = MEASURES.get(incident.cause)
        if measure is None:
            return
        before = None if measure.evidence is None else incident.number(measure.evidence)
        key = (incident.id, decision.rule)
        earlier = self._watches.get(key)
        if earlier is not None:
            before = earlier.before
        self._watches[key] = _Watch(incident, decision, measure, before, now_ns)

    def feed(self, frame: Frame) -> None:
        """Take in new rows."""
        for watch in self._watches.values():
            measure = watch.measure
            if frame.spec.kind is not measure.kind or measure.signal not in frame.spec.signals:
                continue
            settled = frame.time_ns >= watch.begun_ns + int(measure.settle_s * NS_PER_S)
            columns = _columns(frame, watch.incident)
            values = frame.signal(measure.signal)[settled][:, columns]
            _take(watch, values[np.isfinite(values)])

    def step(self, now_ns: int) -> tuple[Outcome, ...]:
        """Give the outcomes that fell due; where the clock was set back, a watch begins anew."""
        for key, watch in self._watches.items():
            if now_ns < watch.begun_ns:
                self._watches[key] = _Watch(watch.incident, watch.decision, watch.measure, watch.before, now_ns)
        due = [
            key
            for key, watch in self._watches.items()
            if now_ns >= watch.begun_ns + int(watch.measure.verify_s * NS_PER_S)
        ]
        return tuple(_outcome(self._watches.pop(key), now_ns) for key in due)

    def forget(self, incident_ids: Sequence[str]) -> None:
        """Drop the watches of incidents that closed before their verdict."""
        for key in [key for key in self._watches if key[0] in incident_ids]:
            del self._watches[key]


def _columns(frame: Frame, incident: Incident) -> list[int]:
    """Give what the incident is about; everything of the kind where it is about another kind altogether."""
    wanted = {incident.entity_id, *incident.affected}
    named = any(name.startswith(f"{frame.spec.kind}:") for name in wanted)
    return [index for index, entity in enumerate(frame.spec.entities) if entity.id in wanted or not named]


def _take(watch: _Watch, known: FloatArray) -> None:
    if known.size == 0:
        return
    watch.rows += known.size
    if watch.measure.signal == "throttle_reasons":
        watch.braked += int(np.count_nonzero(known.astype(np.int64) & POWER_BRAKE_BIT))
    elif watch.measure.higher_is_better:
        watch.worst = float(np.fmin(watch.worst, known.min()))
    else:
        watch.worst = float(np.fmax(watch.worst, known.max()))


def _outcome(watch: _Watch, now_ns: int) -> Outcome:
    measure, incident = watch.measure, watch.incident
    after: float | None = None
    if watch.rows:
        after = watch.braked / watch.rows if measure.signal == "throttle_reasons" else watch.worst
    limit = incident.number(measure.limit) if isinstance(measure.limit, str) else measure.limit
    helped = _helped(watch.before, after, limit, higher_is_better=measure.higher_is_better)
    verdict = {True: "it helped", False: "it did not help", None: "nobody can tell"}[helped]
    return Outcome(
        id=f"outcome:{watch.decision.id}",
        time_ns=now_ns,
        incident_id=incident.id,
        decision_id=watch.decision.id,
        measure=measure.signal,
        unit=measure.unit,
        before=watch.before,
        after=None if after is None else round(after, 3),
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


def _said(value: float | None, measure: Measure) -> str:
    return "unknown" if value is None else f"{value:.2f} {measure.unit}".replace(" ratio", "")
