"""Imbalance between the feeds of a node: one carries another share of the load than it did at a like load.

Feeds never share alike, so each set is compared with itself. A share that moved while the node drew what it did is one
of several supplies behind a feed that is lost or weak, or a contact; a feed that draws more while the others carry what
they did feeds a supply that wastes more. A slow drift counts too. Watts whose amperes did not move with them are of a
faulty meter.

Disproved by a supply that was moved to another feed: then accept the feeds as they are.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.feed_imbalance_summary import describe_imbalance, describe_waste
from analytics.detectors.statements import findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.readings import FeedPeriod, FeedReadings
from analytics.feeds.shares import DRIFT_RATIO, PERIOD_S, FeedShares, after_period, furthest
from analytics.feeds.volt_amps import VoltAmps
from analytics.supply.branches import group_sum
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding

# heuristic: four means of five seconds in a row.
_FAR_S = 20.0
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=30.0)
# heuristic: the others give up less than a quarter of what the feed took on; where its share moved they give up all.
_WASTED_PART = 0.25
# heuristic: half of what it draws more came within the last minute.
_AT_ONCE_PART = 0.5
# heuristic: a supply that wastes a twentieth more fails within minutes by its heat.
_MOST_WASTE = 0.05
# A share is found at most so many periods after it moved: those of its smoothed mean, and those in a row.
_AGO = 11
_PAIR = 2.0
# More than any distance.
_FIRST = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedImbalanceState:
    """State between rows."""

    siblings: Siblings
    readings: FeedReadings
    shares: FeedShares
    volt_amps: VoltAmps
    imbalance: Conditions
    waste: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedImbalance:
    """Raises `Cause.FEED_IMBALANCE` and `Cause.EFFICIENCY_LOSS` on feeds."""

    name: str = "feed_imbalance"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ()

    def start(self, spec: TableSpec) -> FeedImbalanceState:
        """Return the state before the first row."""
        return filled(FeedImbalanceState, len(spec.entities))

    def accept(self, state: FeedImbalanceState, accepted: MaskArray) -> FeedImbalanceState:
        """Reset the learnt shares of all feeds of the nodes of the accepted ones."""
        groups = state.siblings.groups
        near = accepted if len(groups) != len(accepted) else group_sum(accepted.astype(np.float64), groups) > 0
        shares = state.shares.forget(np.asarray(near, dtype=np.bool_))
        return replace(state, shares=shares)

    def rests(self, state: FeedImbalanceState) -> bool:
        """Return True where the table has no feed."""
        return state.readings.idle

    def step(
        self, state: FeedImbalanceState, frame: Frame, topology: Topology
    ) -> tuple[FeedImbalanceState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        entities = frame.spec.entities
        state = replace(state, siblings=state.siblings.under(topology, entities))
        findings: list[Finding] = []
        for readings, _, ended in state.readings.periods(frame, state.siblings.groups, every_s=PERIOD_S):
            if ended is not None and ended.is_feed.any():
                state, found = self._judged(state, ended, entities)
                findings.extend(found)
            state = replace(state, readings=readings)
        return state, tuple(findings)

    def _judged(
        self, state: FeedImbalanceState, period: FeedPeriod, entities: tuple[Entity, ...]
    ) -> tuple[FeedImbalanceState, tuple[Finding, ...]]:
        active = state.imbalance.active | state.waste.active
        shares, volt_amps = after_period(state.shares, period, frozen=active), state.volt_amps.after(period)
        if _far(shares).any():
            shares = _without_denied(shares, volt_amps, period, active)
        state, far = replace(state, shares=shares, volt_amps=volt_amps), _far(shares)
        if not (far.any() or active.any()):
            return state, ()
        new = far & (period.counted(active) == 0.0)
        new |= _in_pair(period) & (period.counted(new) > 0.0)
        wastes = _wastes(shares, period)
        leads = furthest(_distance(_off(shares), wastes, period), new, period.groups)
        wastes &= leads
        lasted_s = shares.departure.lasted_s
        under = (lasted_s == 0.0) & ~_drifted(shares)
        found: list[Finding] = []
        for cause, over in ((Cause.FEED_IMBALANCE, leads & ~wastes), (Cause.EFFICIENCY_LOSS, wastes)):
            is_waste = cause is Cause.EFFICIENCY_LOSS
            before = state.waste if is_waste else state.imbalance
            after, changes = _advanced(before, period, over | (before.active & far), under=under, lasted_s=lasted_s)
            if changes.some:
                describe = (describe_waste if is_waste else describe_imbalance)(shares, period, entities)
                name = f"{self.name}.{cause.value}" if is_waste else self.name
                found += findings_from(name, cause, entities, after, changes, now_ns=period.now_ns, describe=describe)
            state = replace(state, waste=after) if is_waste else replace(state, imbalance=after)
        return state, tuple(found)


def _drifted(shares: FeedShares) -> MaskArray:
    return np.asarray(np.abs(shares.drift) > DRIFT_RATIO, dtype=np.bool_)


def _far(shares: FeedShares) -> MaskArray:
    """Return a mask of feeds that left their share, at once or slowly."""
    return np.asarray((shares.departure.lasted_s >= _FAR_S) | _drifted(shares), dtype=np.bool_)


def _off(shares: FeedShares) -> FloatArray:
    """Return how far each feed is off its share: what is more of the newest means and of the drift."""
    off = np.where(np.isfinite(shares.departure.off), shares.departure.off, 0.0)
    drift = np.where(_drifted(shares), shares.drift, 0.0)
    return np.where(np.abs(off) >= np.abs(drift), off, drift)


def _without_denied(shares: FeedShares, volt_amps: VoltAmps, period: FeedPeriod, active: MaskArray) -> FeedShares:
    """Return the shares, learnt anew on nodes of which a meter of watts reads otherwise than its volts and amperes."""
    new = _far(shares) & ~_drifted(shares) & (period.counted(active) == 0.0)
    denied = new & volt_amps.deny_shares(period, _off(shares), periods_ago=_AGO)
    return shares.forget(period.counted(denied) > 0.0)


def _advanced(
    before: Conditions, period: FeedPeriod, over: MaskArray, *, under: MaskArray, lasted_s: FloatArray
) -> tuple[Conditions, Changes]:
    after, changes = judge(
        before, now_ns=period.now_ns, elapsed_ns=round(period.passed_s * NS_PER_S), over=over, under=under,
        seen=np.isfinite(period.watts), holds=_HOLDS,
    )  # fmt: skip
    return begun(after, changes, period.now_ns - (lasted_s * NS_PER_S).astype(np.int64)), changes


def _in_pair(period: FeedPeriod) -> MaskArray:
    """Return a mask of feeds of nodes that have two of them."""
    return np.asarray(period.is_feed & (period.counted(period.is_feed) == _PAIR), dtype=np.bool_)


def _distance(off: FloatArray, wastes: MaskArray, period: FeedPeriod) -> FloatArray:
    """Return how far each feed is off, as a logarithm.

    Of two feeds either may have moved: one that wastes goes first, then the one that carries less, as faults do.
    """
    far = np.where(_in_pair(period), off < 0.0, np.abs(np.log1p(np.maximum(off, -0.99))))
    return np.asarray(far + _FIRST * wastes, dtype=np.float64)


def _wastes(shares: FeedShares, period: FeedPeriod) -> MaskArray:
    """Return a mask of feeds that draw more while the others carry what they did just before."""
    more_w = period.watts - shares.before_w
    others_more_w = (shares.total_w - period.watts) - shares.others_w
    small = (shares.departure.off > 0.0) & (shares.departure.off < _MOST_WASTE)
    at_once = more_w > _AT_ONCE_PART * shares.departure.off * shares.before_w
    return np.asarray(small & at_once & (np.abs(others_more_w) < _WASTED_PART * more_w), dtype=np.bool_)
