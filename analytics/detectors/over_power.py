"""Over-power: a node or feed draws more than it is rated for, or than it ever drew under load.

A rating that is given counts as it is. Without one, what is learnt is the most that the node drew for two minutes; the
words show which of the two it is. A job that needs more than any before has no finding as long as it begins after the
last one has ended, or its GPUs show the rise themselves. Watts that rise without their amperes are of a faulty meter.

Disproved by a job that is known to need as much.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.joined_columns import JoinedColumn
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.by_node import judged_by_node
from analytics.feeds.gpus_beside import JOINED, GpusBeside, nodes_and_gpus
from analytics.feeds.most_drawn import PERIOD_S, PERIODS, MostDrawn
from analytics.feeds.node_watts import SIGNAL, NodeReadings, WattsPeriod
from analytics.feeds.readings import FeedPeriod, FeedReadings
from analytics.feeds.volt_amps import VoltAmps
from analytics.supply.ratings import ratings_of
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.quantities import percent, volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: meters of 1 % and more; a mean of five seconds is no step.
_RATED_RATIO = 1.02
_HOLDS = Holds.of_seconds(set_s=5.0, clear_s=10.0)
_AT_ONCE = Holds.of_seconds(set_s=0.0, clear_s=5.0)
# A fifth over the limit is the far end of the score.
_WORST = 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OverPowerState:
    """State between rows; `feeds` is used where the entities are feeds, `meters` where they are nodes."""

    siblings: Siblings
    feeds: FeedReadings
    meters: NodeReadings
    gpus: GpusBeside
    volt_amps: VoltAmps
    most: MostDrawn
    watts: FloatArray
    volts: FloatArray
    over_most: Conditions
    over_rating: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class OverPower:
    """Raises `Cause.SUPPLY_OVERLOAD` on feeds and nodes above their rating, and on nodes above what they ever drew."""

    name: str
    kind: EntityKind
    joined_columns: tuple[JoinedColumn, ...] = JOINED

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        return (SIGNAL,) if self.kind is EntityKind.NODE else ()

    def start(self, spec: TableSpec) -> OverPowerState:
        """Return the state before the first row."""
        return filled(OverPowerState, len(spec.entities))

    def rests(self, state: OverPowerState) -> bool:
        """Return True for a table of supplies without a feed."""
        return self.kind is EntityKind.SUPPLY and state.feeds.idle

    def accept(self, state: OverPowerState, accepted: MaskArray) -> OverPowerState:
        """Reset what was learnt of the accepted entities."""
        return replace(state, most=state.most.forget(accepted))

    def step(
        self, state: OverPowerState, frame: Frame, topology: Topology
    ) -> tuple[OverPowerState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        entities = frame.spec.entities
        state = replace(state, siblings=state.siblings.under(topology, entities))
        nodes, _ = nodes_and_gpus(ByIdentity(topology), ByIdentity(entities))
        rated_w = ratings_of(entities)

        def judge_period(
            state: OverPowerState, ended: WattsPeriod, period: FeedPeriod | WattsPeriod
        ) -> tuple[OverPowerState, tuple[Finding, ...]]:
            volts_v = period.volts if isinstance(period, FeedPeriod) else state.volts
            state = replace(state, watts=period.watts, volts=volts_v)
            state, learnt, rated = _judged(state, ended, rated_w, period)
            return state, (
                *(self._over_most(state, learnt, ended.now_ns, nodes) if learnt.some else ()),
                *(self._over_rating(state, rated, ended.now_ns, entities, rated_w) if rated.some else ()),
            )

        return judged_by_node(state, frame, judge_period, every_s=PERIOD_S)

    def _over_most(
        self, state: OverPowerState, changes: Changes, now_ns: int, nodes: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            node, now_w, most_w = nodes[index].label, float(state.most.last_w[index]), float(state.most.most_w[index])
            over = now_w / most_w - 1.0
            if status is FindingStatus.CLEARED:
                summary = f"{node} draws {now_w:.0f} W, no more than it ever did ({most_w:.0f} W)"
            else:
                limit = f"the most ever seen ({most_w:.0f} W); no rating given"
                summary = f"{node} draws {now_w:.0f} W, {percent(over)} over {limit}"
            return Statement(
                severity=Severity.WARNING,
                score=over / _WORST,
                summary=summary,
                evidence=evidence(
                    ("power_w", now_w, "W"),
                    ("most_w", most_w, "W"),
                    ("duration_s", state.over_most.lasted_s(index, now_ns), "s"),
                ),
            )

        return findings_from(
            self.name, Cause.SUPPLY_OVERLOAD, nodes, state.over_most, changes, now_ns=now_ns, describe=describe
        )

    def _over_rating(
        self,
        state: OverPowerState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        rated_w: FloatArray,
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            name, now_w, limit_w = entities[index].label, float(state.watts[index]), float(rated_w[index])
            at = f" at {volts(float(state.volts[index]))}" if np.isfinite(state.volts[index]) else ""
            is_over = status is not FindingStatus.CLEARED
            of = f"{percent(now_w / limit_w)} of the {limit_w:.0f} W that it is rated for"
            return Statement(
                severity=Severity.WARNING,
                score=(now_w / limit_w - 1.0) / _WORST,
                summary=f"{name} draws {now_w:.0f} W{at}, {of}"
                if is_over
                else f"{name} is within its rating, {now_w:.0f} W",
                evidence=evidence(
                    ("power_w", now_w, "W"),
                    ("rated_w", limit_w, "W"),
                    ("voltage_v", float(state.volts[index]), "V"),
                    ("duration_s", state.over_rating.lasted_s(index, now_ns), "s"),
                ),
            )

        return findings_from(
            f"{self.name}.rating", Cause.SUPPLY_OVERLOAD, entities, state.over_rating, changes, now_ns=now_ns,
            describe=describe,
        )  # fmt: skip


def _judged(
    state: OverPowerState, period: WattsPeriod, rated_w: FloatArray, of_feeds: FeedPeriod | WattsPeriod
) -> tuple[OverPowerState, Changes, Changes]:
    gpus, volt_amps = state.gpus.after_period(period.is_new), state.volt_amps
    most = state.most.after(period, gpus.explained_w())
    if isinstance(of_feeds, FeedPeriod):
        volt_amps = volt_amps.after(of_feeds)
        new = most.over & ~state.most.over
        if new.any():
            rose = most.last_w / most.before_w - 1.0
            most = most.forget(new & volt_amps.deny(of_feeds, rose, periods_ago=PERIODS + 1))
    passed_ns = round(period.passed_s * NS_PER_S)
    over_most, learnt = judge(
        state.over_most, now_ns=period.now_ns, elapsed_ns=passed_ns, over=most.over, under=~most.over,
        seen=period.is_new, holds=_AT_ONCE,
    )  # fmt: skip
    over_most = begun(over_most, learnt, most.since_ns)
    over = state.watts > _RATED_RATIO * rated_w
    over_rating, rated = judge(
        state.over_rating, now_ns=period.now_ns, elapsed_ns=passed_ns, over=over,
        under=state.watts <= rated_w, seen=np.isfinite(state.watts), holds=_HOLDS,
    )  # fmt: skip
    state = replace(state, gpus=gpus, volt_amps=volt_amps, most=most, over_most=over_most, over_rating=over_rating)
    return state, learnt, rated
