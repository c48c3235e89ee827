"""Watts of a feed that left its volts and amperes: a meter of one of them reads wrong.

Of alternating current the watts are less than volts times amperes by the power factor, which a supply has of its own
and which moves with its load. Judged is what it was at a like load; a factor above 1 is none.

Disproved by a supply that was exchanged for another model: then accept the feed as it is.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.power_factor import LEAST_RATIO, PERIOD_S, PowerFactor
from analytics.feeds.readings import FeedPeriod, FeedReadings
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, MaskArray, TableSpec, filled
from telemetry.quantities import volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: meters that average over different times show a step of the load for seconds.
_OFF_S = 30.0
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=10.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedFactorState:
    """State between rows."""

    siblings: Siblings
    readings: FeedReadings
    factor: PowerFactor
    off: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFactor:
    """Raises `Cause.SENSOR_FAULT` on feeds whose watts left their volts and amperes."""

    name: str = "feed_factor"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ()

    def start(self, spec: TableSpec) -> FeedFactorState:
        """Return the state before the first row."""
        return filled(FeedFactorState, len(spec.entities))

    def rests(self, state: FeedFactorState) -> bool:
        """Return True where the table has no feed."""
        return state.readings.idle

    def accept(self, state: FeedFactorState, accepted: MaskArray) -> FeedFactorState:
        """Reset the learnt factor of the accepted feeds."""
        return replace(state, factor=replace(state.factor, factors=state.factor.factors.forget(accepted)))

    def step(
        self, state: FeedFactorState, frame: Frame, topology: Topology
    ) -> tuple[FeedFactorState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        findings: list[Finding] = []
        for readings, _, ended in state.readings.periods(frame, state.siblings.groups, every_s=PERIOD_S):
            if ended is not None and ended.is_new.any():
                state, changes = _judged(state, ended)
                if changes.some:
                    findings += _findings(self.name, state, changes, ended, frame.spec.entities)
            state = replace(state, readings=readings)
        return state, tuple(findings)


def _judged(state: FeedFactorState, period: FeedPeriod) -> tuple[FeedFactorState, Changes]:
    factor = state.factor.after(period, frozen=state.off.active)
    lasted_s = factor.lasted_s
    off, changes = judge(
        state.off,
        now_ns=period.now_ns,
        elapsed_ns=round(period.passed_s * NS_PER_S),
        over=lasted_s >= _OFF_S,
        under=lasted_s == 0.0,
        seen=period.is_new,
        holds=_HOLDS,
    )
    off = begun(off, changes, period.now_ns - (lasted_s * NS_PER_S).astype(np.int64))
    return replace(state, factor=factor, off=off), changes


def _findings(
    name: str, state: FeedFactorState, changes: Changes, period: FeedPeriod, entities: tuple[Entity, ...]
) -> tuple[Finding, ...]:
    def describe(index: int, status: FindingStatus) -> Statement:
        now, usual = float(state.factor.factor[index]), float(state.factor.usual[index])
        at_v, at_a, at_w = (float(one) for one in period.values[index])
        label = entities[index].label
        if status is FindingStatus.CLEARED:
            summary = f"{label} meters agree again, power factor {now:.2f}"
        else:
            was = f"was {usual:.2f} at this load" if np.isfinite(usual) else "at most 1 is possible"
            summary = f"{label} meters: {at_w:.0f} W of {volts(at_v)} and {at_a:.2f} A, power factor {now:.2f} {was}"
        return Statement(
            severity=Severity.WARNING,
            score=abs(now / usual - 1.0) / (4.0 * LEAST_RATIO) if np.isfinite(usual) else 0.5,
            summary=summary,
            evidence=evidence(
                ("power_factor_ratio", now, "ratio"),
                ("usual_power_factor_ratio", usual, "ratio"),
                ("voltage_v", at_v, "V"),
                ("current_a", at_a, "A"),
                ("power_w", at_w, "W"),
                ("duration_s", state.off.lasted_s(index, period.now_ns), "s"),
            ),
        )

    return findings_from(
        name, Cause.SENSOR_FAULT, entities, state.off, changes, now_ns=period.now_ns, describe=describe
    )
