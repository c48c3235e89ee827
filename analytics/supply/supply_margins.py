"""Margins of supplies, plugs, shelves and feeds: how far each load is from its rating, now and with one lost.

Only what has a rating and is measured is judged. Watts that mend an excess are watts of a whole bus: supplies share a
load in fixed parts, so each link falls with the whole. A feed of several buses has a margin for each of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from analytics.supply.margin_plan import MarginPlan
from physics.breakers import has_continuous_rule
from physics.link_loads import Draw, InputSide, LinkKind, LinkLoad, Trip, link_loads
from physics.next_failure import Loss, after_loss, allowed_losses, carrying
from physics.wiring import Bus, Wiring
from telemetry.records import Severity


class Basis(StrEnum):
    """Load that a margin is judged at."""

    NOW = "now"
    PEAKS = "step peaks"
    LOSS = "after a loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginLevels:
    """Shares of ratings from which a load is too high; see `SupplyMarginsLimits`."""

    continuous_ratio: float
    over_current_ratio: float
    critical_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """Loads of the measured supplies of a minute.

    `steady` are the mean draws, `peaks` those of the highest load step, `inputs` what is measured on the input side.
    """

    steady: Mapping[str, Draw]
    peaks: Mapping[str, Draw]
    inputs: InputSide


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """Load of one link over its limit, 1 at the limit.

    Parameters
    ----------
    place
        Column of the supply that carries the finding.
    bus
        Name of the bus whose load mends the excess; empty for a supply that is on none.
    excess
        Load over the limit that applies to the basis.
    severity
        Severity if `excess` is above 1; None where another detector reports it.
    mend_w
        Power of that bus less that ends the excess, 0 where there is none; `total_w` is that of all its buses.
    loss
        What was lost; None for the load as it is.
    """

    place: int
    bus: str
    link: LinkLoad
    basis: Basis
    excess: float
    severity: Severity | None
    mend_w: float
    total_w: float
    loss: Loss | None = None

    @property
    def order(self) -> tuple[int, float]:
        """Sort key: the most severe excess last, then the one nearest to its limit."""
        is_over = self.severity is not None and self.excess > 1.0
        return (self.severity.rank + 1 if self.severity is not None and is_over else 0, self.excess)


def margins_of(plan: MarginPlan, measured: MeasuredLoad, levels: MarginLevels) -> Iterator[Margin]:
    """Yield the margins of all links, as they are and after each loss that a bus must bear."""
    load = _Load(plan=plan, measured=measured, levels=levels)
    yield from _as_is(load)
    for bus, part in plan.parts:
        if not all(name in measured.steady for name in bus.supplies):
            continue
        counted = carrying(bus, measured.steady)
        off = frozenset(bus.supplies).difference(counted)
        for loss in _worth_judging(part, allowed_losses(part, bus, counted)):
            yield from _after(load, part, bus, loss, off)


def _worth_judging(part: Wiring, losses: Iterable[Loss]) -> Iterator[Loss]:
    """Yield the losses; where no plug and no feed is described, that of the largest supply stands for each single one.

    The rest shares the load by its ratings then, so no other loss leaves it nearer to them.
    """
    if part.feeds or any(one.plugs or one.inlet for one in part.supplies):
        yield from losses
        return
    rated_w = {one.name: one.rated_w or 0.0 for one in part.supplies}
    found = [*losses]
    singles = [one for one in found if len(one.supplies) == 1]
    if singles:
        yield max(singles, key=lambda one: rated_w[next(iter(one.supplies))])
    yield from (one for one in found if len(one.supplies) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Loads of the measured supplies, and the levels that they are judged by."""

    plan: MarginPlan
    measured: MeasuredLoad
    levels: MarginLevels

    def margins(
        self, link: LinkLoad, basis: Basis, excess: float, severity: Severity | None, *, loss: Loss | None = None
    ) -> Iterator[Margin]:
        """Yield the margin of a link whose load is `excess` times its limit, for each bus that it hangs on."""
        # What others draw from the feed is not taken off by less load of its buses.
        own = link.load - link.others
        share = min((link.load - link.load / excess) / own, 1.0) if excess > 1.0 and own > 0.0 else 0.0
        homes = [(bus, self._place(link, supplies), share * self._power_w(bus)) for bus, supplies in self._homes(link)]
        total_w = sum(mend_w for _, _, mend_w in homes)
        for bus, place, mend_w in homes:
            if place is not None:
                yield Margin(
                    place=place,
                    bus="" if bus is None else bus.name,
                    link=link,
                    basis=basis,
                    excess=excess,
                    severity=severity,
                    mend_w=mend_w if bus is not None else share * self._drawn_w(link.supply),
                    total_w=total_w,
                    loss=loss,
                )

    def _homes(self, link: LinkLoad) -> Iterator[tuple[Bus | None, tuple[str, ...]]]:
        """Yield each bus whose load flows through a link, with the supplies of the link on it."""
        if link.kind in (LinkKind.FEED, LinkKind.SHELF):
            is_feed = link.kind is LinkKind.FEED
            own = self.plan.supplies_of_feed(link.name) if is_feed else self.plan.modules_of(link.name)
            for bus in self.plan.buses_of(own):
                yield bus, tuple(name for name in bus.supplies if name in own)
        else:
            yield self.plan.wiring.bus_of(link.supply), (link.supply,)

    def _place(self, link: LinkLoad, supplies: tuple[str, ...]) -> int | None:
        """Return the column that carries the finding: the first supply of a bus or feed, the own one of a plug."""
        bus = self.plan.wiring.bus_of(link.supply) if link.kind is LinkKind.SUPPLY else None
        return self.plan.first_column(supplies if bus is None else bus.supplies)

    def _power_w(self, bus: Bus | None) -> float:
        return 0.0 if bus is None else sum(self._drawn_w(name) for name in bus.supplies)

    def _drawn_w(self, supply: str) -> float:
        draw = self.measured.steady.get(supply)
        return 0.0 if draw is None else draw.power_w


def _as_is(load: _Load) -> Iterator[Margin]:
    """Yield the margins of all links as they are, and in the highest load step."""
    levels, inputs = load.levels, load.measured.inputs
    feeds = {feed.name: feed for feed in load.plan.wiring.feeds}
    for link in link_loads(load.plan.wiring, load.measured.steady, inputs=inputs):
        limit, severity = 1.0, Severity.CRITICAL if link.ratio > levels.critical_ratio else Severity.WARNING
        if link.kind is LinkKind.FEED:
            feed = feeds[link.name]
            limit = levels.continuous_ratio if has_continuous_rule(feed.nominal_v, feed.curve) else 1.0
            severity = Severity.CRITICAL if link.trip in (Trip.TRIPS, Trip.INSTANT) else Severity.WARNING
        # A supply over its rating has a detector of its own.
        yield from load.margins(link, Basis.NOW, link.ratio / limit, None if _is_supply(link) else severity)
    for link in link_loads(load.plan.wiring, load.measured.peaks, inputs=inputs):
        if link.kind is LinkKind.PLUGS:
            severity = Severity.INFO if link.peak_rating is None else Severity.WARNING
            rated = link if link.peak_rating is None else replace(link, rating=link.peak_rating)
            yield from load.margins(rated, Basis.PEAKS, rated.ratio, severity)
        elif _is_supply(link):
            yield from load.margins(link, Basis.PEAKS, link.ratio / levels.over_current_ratio, None)


def _is_supply(link: LinkLoad) -> bool:
    return link.kind is LinkKind.SUPPLY


def _after(load: _Load, part: Wiring, bus: Bus, loss: Loss, off: frozenset[str]) -> Iterator[Margin]:
    """Yield the margins of the supplies of a bus after a loss, of their plugs, and of the feeds that are left."""
    beside = frozenset(one.name for one in part.supplies if loss.feed and one.feed == loss.feed)
    lost = loss.supplies | beside | off
    measured = load.measured
    # Of a fleet only what is near: a bus has no other draws.
    near = [one.name for one in part.supplies]
    steady, peaks = (
        draws_left(part, {name: draws[name] for name in near if name in draws}, lost)
        for draws in (measured.steady, measured.peaks)
    )
    if steady is None or peaks is None:
        return
    severity = Severity.INFO if bus.redundancy is None else Severity.WARNING
    for link in link_loads(part, steady, inputs=measured.inputs):
        if link.supply in bus.supplies or (link.kind is LinkKind.FEED and loss.feed not in ("", link.name)):
            yield from load.margins(link, Basis.LOSS, link.ratio, severity, loss=loss)
    for link in link_loads(part, peaks, inputs=measured.inputs):
        if _is_supply(link) and link.supply in bus.supplies:
            excess = link.ratio / load.levels.over_current_ratio
            yield from load.margins(link, Basis.PEAKS, excess, severity, loss=loss)


def draws_left(part: Wiring, draws: Mapping[str, Draw], lost: frozenset[str]) -> dict[str, Draw] | None:
    """Return the draws after a loss, 0 A for what was lost; None if a bus is left without any supply."""
    after = after_loss(part, draws, lost)
    if after is None:
        return None
    return after | {name: replace(draws[name], current_a=0.0) for name in lost if name in draws}
