"""Two names for one meter, and channels that are the sum or the mean of the others: information, found from the data.

Readings that are equal in every bit while they move are one witness, whatever their names are; detectors that compare
nodes count them once.

Disproved by one reading that differs at the same time.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.feeds.node_watts import SIGNAL, NodeReadings
from analytics.feeds.readings import FeedPeriod, FeedReadings
from analytics.feeds.sibling_ratio import PERIOD_S
from analytics.feeds.twins import Derived, Twins, meter_keys
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus, Severity

# What is judged has lasted by then.
_AT_ONCE = Holds.of_seconds(set_s=0.0, clear_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeterTwinsState:
    """State between rows; `feeds` is used where the entities are feeds, `meters` where they are nodes."""

    siblings: Siblings
    feeds: FeedReadings
    meters: NodeReadings
    twins: Twins
    derived: Derived
    double: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterTwins:
    """Raises `Cause.SENSOR_FAULT` as information on meters that are no witness of their own."""

    name: str
    kind: EntityKind

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        return (SIGNAL,) if self.kind is EntityKind.NODE else ()

    def start(self, spec: TableSpec) -> MeterTwinsState:
        """Return the state before the first row."""
        return filled(MeterTwinsState, len(spec.entities))

    def rests(self, state: MeterTwinsState) -> bool:
        """Return True for a table of supplies without a feed, or with nothing to compare."""
        return self.kind is EntityKind.SUPPLY and state.feeds.idle

    def step(
        self, state: MeterTwinsState, frame: Frame, topology: Topology
    ) -> tuple[MeterTwinsState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        entities = frame.spec.entities
        keys = meter_keys(ByIdentity(entities))
        findings: list[Finding] = []
        if self.kind is EntityKind.NODE:
            for meters, _, ended in state.meters.periods(frame, every_s=PERIOD_S):
                if ended is not None:
                    state = replace(state, twins=state.twins.after(ended.watts, keys))
                    state, found = self._judged(state, ended.now_ns, ended.passed_s, ended.is_new, entities)
                    findings.extend(found)
                state = replace(state, meters=meters)
            return state, tuple(findings)
        state = replace(state, siblings=state.siblings.under(topology, entities))
        for feeds, _, period in state.feeds.periods(frame, state.siblings.groups, every_s=PERIOD_S):
            if period is not None:
                state = replace(state, twins=state.twins.after(_new(period), keys), derived=state.derived.after(period))
                state, found = self._judged(state, period.now_ns, period.passed_s, period.is_new, entities)
                findings.extend(found)
            state = replace(state, feeds=feeds)
        return state, tuple(findings)

    def _judged(
        self, state: MeterTwinsState, now_ns: int, passed_s: float, seen: MaskArray, entities: tuple[Entity, ...]
    ) -> tuple[MeterTwinsState, tuple[Finding, ...]]:
        over = state.twins.copies | state.derived.is_sum | state.derived.is_mean
        double, changes = judge(
            state.double, now_ns=now_ns, elapsed_ns=round(passed_s * NS_PER_S), over=over, under=~over, seen=seen,
            holds=_AT_ONCE,
        )  # fmt: skip
        state = replace(state, double=double)
        return state, _findings(self.name, state, changes, now_ns, entities) if changes.some else ()


def _new(period: FeedPeriod) -> FloatArray:
    """Return one number of volts, amperes and watts, the same only where all three are; NaN where nothing was read."""
    volts, amps, watts = np.where(np.isfinite(period.values), period.values, 0.0).T
    shown = math.pi * volts + math.e * amps + watts
    return np.where(period.is_new & (period.watts > 0.0), shown, np.nan)


def _findings(
    name: str, state: MeterTwinsState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
) -> tuple[Finding, ...]:
    twins, derived = state.twins, state.derived
    originals = meter_keys(ByIdentity(entities)).places_of(twins.partner)

    def describe(index: int, status: FindingStatus) -> Statement:
        own = entities[index].label
        if status is FindingStatus.CLEARED:
            summary = f"{own} shows readings of its own"
        elif twins.copies[index]:
            other = entities[int(originals[index])].label if originals[index] >= 0 else "another one"
            summary = f"{own} and {other} are one meter by every bit: counted once"
        else:
            what = "sum" if derived.is_sum[index] else "mean"
            summary = f"{own} shows the {what} of the other feeds: no meter of its own"
        return Statement(
            severity=Severity.INFO,
            score=0.5,
            summary=summary,
            evidence=evidence(
                ("equal_readings", float(max(twins.equal[index], derived.sums[index], derived.means[index])), ""),
            ),
        )

    return findings_from(name, Cause.SENSOR_FAULT, entities, state.double, changes, now_ns=now_ns, describe=describe)
