"""Power brake: the platform made the GPU cut its clocks because the supply is overloaded.

Two sources: bit 0x80 of the clock event reasons, which polling can miss, and the driver's counter of braked time, which
misses nothing but comes at the slow rate and not from every GPU.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.supply_limits import PowerBrakeLimits
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.gpu import REASON_POWER_BRAKE
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerBrakeState:
    """State between rows; arrays of shape ``(n_gpus,)``.

    `counter_s` is the last known counter, NaN before the first. `polled_s` and `counted_s` are the braked time by each
    source since the condition began, `times` how often the bit was set or the counter began to grow.
    """

    last_ns: int | None
    conditions: Conditions
    counter_s: FloatArray
    braked: MaskArray
    polled_s: FromZero
    counted_s: FromZero
    times: FromZero


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerBrake:
    """Raises `Cause.POWER_BRAKE` at the first sign, so that a braked GPU is never silent."""

    limits: PowerBrakeLimits
    name: str = "power_brake"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("throttle_reasons",)

    def start(self, spec: TableSpec) -> PowerBrakeState:
        """Return the state before the first row."""
        return filled(PowerBrakeState, len(spec.entities))

    def step(
        self, state: PowerBrakeState, frame: Frame, topology: Topology
    ) -> tuple[PowerBrakeState, tuple[Finding, ...]]:
        """Judge the rows of a frame. A counter that goes back was reset and is no evidence."""
        del topology
        flags, counters_s = frame.signal("throttle_reasons"), optional(frame, "power_brake_s")
        if len(frame) and _is_quiet(state, flags, counters_s):
            return _after_quiet(state, int(frame.time_ns[-1]), flags, counters_s), ()
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            state, changes = self._judge(state, now_ns, flags[row], counters_s[row])
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _judge(
        self, state: PowerBrakeState, now_ns: int, flags: FloatArray, counter_s: FloatArray
    ) -> tuple[PowerBrakeState, Changes]:
        passed_ns = elapsed_ns(state.last_ns, now_ns)
        polled = bits_set(flags, REASON_POWER_BRAKE)
        # NaN on either side compares as False: no growth known.
        grew_s = np.where(counter_s > state.counter_s, counter_s - state.counter_s, 0.0)
        over = polled | (grew_s > 0)
        seen = ~(np.isnan(flags) & np.isnan(counter_s))
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=seen & ~over,
            seen=seen,
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        if conditions.busy or state.conditions.busy:
            state = _count(state, passed_ns / NS_PER_S, polled, grew_s)
        state = replace(
            state,
            last_ns=now_ns,
            counter_s=np.where(np.isnan(counter_s), state.counter_s, counter_s),
            braked=np.where(np.isnan(flags), state.braked, polled),
        )
        conditions, changes = report_worse(
            conditions,
            changes,
            now_ns=now_ns,
            over=over,
            badness=state.times + np.maximum(state.polled_s, state.counted_s),
        )
        return replace(state, conditions=conditions), changes

    def _findings(
        self, state: PowerBrakeState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            seconds = state.conditions.lasted_s(index, now_ns)
            braked_s = float(max(state.polled_s[index], state.counted_s[index]))
            times = int(state.times[index])
            name = entities[index].label
            counted = f"{times} brake{'s' if times != 1 else ''}, {duration(braked_s)} braked"
            if status is FindingStatus.CLEARED:
                summary = f"{name}: no power brake for {duration(self.limits.clear_after_s)} (before: {counted})"
            elif braked_s >= 0.1:
                summary = f"{name} under hardware power brake: {counted} in {duration(seconds)}"
            else:
                summary = f"{name} under hardware power brake"
            return Statement(
                # The platform pulls this line only when the supply is past its limit.
                severity=Severity.CRITICAL,
                score=braked_s / max(seconds, 1.0),
                summary=summary,
                evidence=evidence(
                    ("brake_s", braked_s, "s"),
                    ("polled_brake_s", float(state.polled_s[index]), "s"),
                    ("counted_brake_s", float(state.counted_s[index]), "s"),
                    ("brakes", times, ""),
                    ("window_s", seconds, "s"),
                ),
            )

        return findings_from(
            self.name, Cause.POWER_BRAKE, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )


def _is_quiet(state: PowerBrakeState, flags: FloatArray, counters_s: FloatArray) -> bool:
    """Return True if no GPU is braked before or in these rows; False also where counters have gaps."""
    if state.conditions.busy or bits_set(flags, REASON_POWER_BRAKE).any():
        return False
    absent = np.isnan(counters_s)
    before_s = np.concatenate([state.counter_s[np.newaxis], counters_s[:-1]])
    return bool(absent.all() or not (absent.any() or (counters_s > before_s).any()))


def _after_quiet(state: PowerBrakeState, now_ns: int, flags: FloatArray, counters_s: FloatArray) -> PowerBrakeState:
    """Return the state after rows without a brake."""
    newest_s = counters_s[-1]
    return replace(
        state,
        last_ns=now_ns,
        counter_s=np.where(np.isnan(newest_s), state.counter_s, newest_s),
        braked=state.braked & np.isnan(flags).all(axis=0),
    )


def _count(state: PowerBrakeState, passed_s: float, polled: MaskArray, grew_s: FloatArray) -> PowerBrakeState:
    """Add up where the condition holds; elsewhere start afresh."""
    held = state.conditions.active
    begins = (polled & ~state.braked) | ((grew_s > 0) & ~polled & ~held)
    return replace(
        state,
        polled_s=np.where(held, state.polled_s, 0.0) + np.where(polled & state.braked, passed_s, 0.0),
        counted_s=np.where(held, state.counted_s, 0.0) + grew_s,
        times=np.where(held, state.times, 0.0) + begins,
    )
