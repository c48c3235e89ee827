"""Margins of supplies, plugs and feeds: how far each load is from its rating, now and with one supply or feed lost.

Only what has a rating and is measured is judged. Watts that mend an excess are watts of the whole bus, or of all that
a feed carries: supplies share a load in fixed parts, so each link falls with the whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from analytics.connectivity import GroupArray
from analytics.connectivity.kinship import ByIdentity
from physics.next_failure import (
    Draw,
    LinkKind,
    LinkLoad,
    Loss,
    Trip,
    after_loss,
    allowed_losses,
    carrying,
    link_loads,
)
from physics.wiring import Bus, Origin, WiredSupply, Wiring
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray
from telemetry.ratings import rated_power_w
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
class Margin:
    """Load of one link over its limit, 1 at the limit.

    Parameters
    ----------
    place
        Column of the supply that carries the finding.
    excess
        Load over the limit that applies to the basis.
    severity
        Severity if `excess` is above 1.
    mend_w
        Power less that ends the excess, 0 where there is none.
    loss
        What was lost; None for the load as it is.
    """

    place: int
    link: LinkLoad
    basis: Basis
    excess: float
    severity: Severity
    mend_w: float
    loss: Loss | None = None

    @property
    def order(self) -> tuple[int, float]:
        """Sort key: the most severe excess last, then the one nearest to its limit."""
        return (self.severity.rank + 1 if self.excess > 1.0 else 0, self.excess)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginPlan:
    """Wiring of measured supplies: the columns that show each supply, and the number of its bus for each column.

    Ratings that a supply reports itself are filled in. `parts` has each bus with its supplies and those that share a
    feed with them. A column that shows no wired supply has a bus of its own.
    """

    wiring: Wiring
    parts: tuple[tuple[Bus, Wiring], ...]
    columns: Mapping[str, tuple[int, ...]]
    buses: GroupArray

    @staticmethod
    def of(
        wiring: Wiring | None, entities: Sequence[Entity], topology: Topology, *, rated_w: float | None
    ) -> "MarginPlan":
        """Return the plan of a described wiring, else of the edges; the newest few are kept."""
        return _plan(ByIdentity(wiring), ByIdentity(entities), ByIdentity(topology), rated_w)


@lru_cache(maxsize=16)
def _plan(
    described: ByIdentity[Wiring | None],
    entities: ByIdentity[Sequence[Entity]],
    topology: ByIdentity[Topology],
    rated_w: float | None,
) -> MarginPlan:
    wiring = _of_edges(entities.it, topology.it) if described.it is None else described.it
    reported = rated_power_w(entities.it, configured_w=rated_w)
    places: dict[str, list[int]] = {}
    for place, entity in enumerate(entities.it):
        places.setdefault(entity.key, []).append(place)
        if entity.name != entity.key:
            places.setdefault(entity.name, []).append(place)
    columns: dict[str, tuple[int, ...]] = {}
    supplies = []
    for one in wiring.supplies:
        own = tuple(dict.fromkeys(place for sensor in one.sensors for place in places.get(sensor, ())))
        known = [float(reported[place]) for place in own if np.isfinite(reported[place])]
        supplies.append(replace(one, rated_w=known[0]) if one.rated_w is None and known else one)
        if own:
            columns[one.name] = own
    numbers = {bus.name: number for number, bus in enumerate(wiring.buses)}
    buses = np.arange(len(numbers), len(numbers) + len(entities.it), dtype=np.intp)
    for name, own in columns.items():
        bus = wiring.bus_of(name)
        if bus is not None:
            buses[own[0]] = numbers[bus.name]
    buses.flags.writeable = False  # several states share it
    wiring = replace(wiring, supplies=tuple(supplies))
    return MarginPlan(wiring=wiring, parts=_parts(wiring), columns=columns, buses=buses)


def _parts(wiring: Wiring) -> tuple[tuple[Bus, Wiring], ...]:
    by_name = {one.name: one for one in wiring.supplies}
    by_feed: dict[str, list[WiredSupply]] = {}
    for one in wiring.supplies:
        by_feed.setdefault(one.feed, []).append(one)
    parts = []
    for bus in wiring.buses:
        own = [by_name[name] for name in bus.supplies]
        feeds = {one.feed for one in own if one.feed}
        near = {one.name: one for one in (*own, *(one for feed in sorted(feeds) for one in by_feed[feed]))}
        feeding = tuple(feed for feed in wiring.feeds if feed.name in feeds)
        tied = [other for other in wiring.buses if other.name in bus.joins or bus.name in other.joins]
        homes = [home for name in near if (home := wiring.bus_of(name)) is not None]
        buses = {one.name: one for one in (bus, *tied, *homes)}
        part = Wiring(origin=wiring.origin, supplies=tuple(near.values()), buses=tuple(buses.values()), feeds=feeding)
        parts.append((bus, part))
    return tuple(parts)


def _of_edges(entities: Sequence[Entity], topology: Topology) -> Wiring:
    """Return the wiring that edges describe: supplies of one nominal voltage and the same GPUs share a bus."""
    fed: dict[str, list[str]] = {}
    for above, below in topology.edges:
        if above.startswith(f"{EntityKind.SUPPLY}:") and below.startswith(f"{EntityKind.GPU}:"):
            fed.setdefault(above, []).append(below)
    groups: dict[tuple[float | None, tuple[str, ...]], list[Entity]] = {}
    for entity in sorted(entities, key=lambda one: one.key):
        if entity.id in fed:
            groups.setdefault((entity.nominal_v, tuple(sorted(fed[entity.id]))), []).append(entity)
    return Wiring(
        origin=Origin.INFERRED,
        supplies=tuple(
            WiredSupply(name=one.key, sensors=(one.key,), nominal_v=one.nominal_v)
            for members in groups.values()
            for one in members
        ),
        buses=tuple(
            Bus(name=f"bus{number}", nominal_v=nominal_v, supplies=tuple(one.key for one in members))
            for number, ((nominal_v, _), members) in enumerate(groups.items())
        ),
    )


def draws_of(plan: MarginPlan, volts: FloatArray, amps: FloatArray) -> dict[str, Draw]:
    """Return the draw of each supply from the first of its columns that has both values, shape ``(n_supplies,)``."""
    known = np.isfinite(volts) & np.isfinite(amps) & (volts > 0.0)
    found = ((name, next((place for place in own if known[place]), None)) for name, own in plan.columns.items())
    return {
        name: Draw(voltage_v=float(volts[place]), current_a=max(float(amps[place]), 0.0))
        for name, place in found
        if place is not None
    }


def margins_of(
    plan: MarginPlan, steady: Mapping[str, Draw], peaks: Mapping[str, Draw], levels: MarginLevels
) -> Iterator[Margin]:
    """Yield the margins of all links, as they are and after each loss that a bus must bear.

    `steady` are the mean draws of some tens of seconds, `peaks` those of the highest load step.
    """
    load = _Load(plan=plan, steady=steady, peaks=peaks, levels=levels)
    yield from _as_is(load)
    for bus, part in plan.parts:
        if not all(name in steady for name in bus.supplies):
            continue
        counted = carrying(bus, steady)
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
    """Draws of the measured supplies, and the levels that they are judged by."""

    plan: MarginPlan
    steady: Mapping[str, Draw]
    peaks: Mapping[str, Draw]
    levels: MarginLevels

    def margin(
        self, link: LinkLoad, basis: Basis, excess: float, severity: Severity, *, loss: Loss | None = None
    ) -> Margin:
        """Return the margin of a link whose load is `excess` times its limit."""
        total_w = sum(self.steady[name].power_w for name in self._beside(link) if name in self.steady)
        return Margin(
            place=self._home(link),
            link=link,
            basis=basis,
            excess=excess,
            severity=severity,
            mend_w=total_w * (1.0 - 1.0 / excess) if excess > 1.0 else 0.0,
            loss=loss,
        )

    def _beside(self, link: LinkLoad) -> tuple[str, ...]:
        """Return the supplies whose load falls with that of a link: all of its feed or bus."""
        wiring = self.plan.wiring
        if link.kind is LinkKind.FEED:
            return tuple(one.name for one in wiring.supplies if one.feed == link.name)
        bus = wiring.bus_of(link.supply)
        return (link.supply,) if bus is None else bus.supplies

    def _home(self, link: LinkLoad) -> int:
        """Return the column that carries the finding: the first supply of a bus or feed, the own one of a plug."""
        of_one = link.kind in (LinkKind.PLUGS, LinkKind.INLET)
        members = (link.supply,) if of_one else self._beside(link)
        return next(self.plan.columns[name][0] for name in members if name in self.plan.columns)


def _as_is(load: _Load) -> Iterator[Margin]:
    """Yield the margins of plugs and feeds as they are; a supply over its rating has a cause of its own."""
    levels = load.levels
    for link in link_loads(load.plan.wiring, load.steady):
        if link.kind is LinkKind.FEED:
            severity = Severity.CRITICAL if link.trip in (Trip.TRIPS, Trip.INSTANT) else Severity.WARNING
            yield load.margin(link, Basis.NOW, link.ratio / levels.continuous_ratio, severity)
        elif link.kind is not LinkKind.SUPPLY:
            severity = Severity.CRITICAL if link.ratio > levels.critical_ratio else Severity.WARNING
            yield load.margin(link, Basis.NOW, link.ratio, severity)
    for link in link_loads(load.plan.wiring, load.peaks):
        if link.kind is LinkKind.PLUGS:
            peak_a = _peak_a(load.plan.wiring, link)
            severity = Severity.INFO if peak_a is None else Severity.WARNING
            rated = link if peak_a is None else replace(link, rating=peak_a)
            yield load.margin(rated, Basis.PEAKS, rated.ratio, severity)


def _peak_a(wiring: Wiring, link: LinkLoad) -> float | None:
    """Return the short-time current of plugs; None where neither maker nor standard names one."""
    supply = next(one for one in wiring.supplies if one.name == link.supply)
    plugs = next(one for one in supply.plugs if one.label == link.name)
    return None if plugs.peak_a is None else plugs.peak_a * plugs.count


def _after(load: _Load, part: Wiring, bus: Bus, loss: Loss, off: frozenset[str]) -> Iterator[Margin]:
    """Yield the margins of the supplies of a bus after a loss, of their plugs, and of the feeds that are left."""
    beside = frozenset(one.name for one in part.supplies if loss.feed and one.feed == loss.feed)
    lost = loss.supplies | beside | off
    steady, peaks = _left(part, load.steady, lost), _left(part, load.peaks, lost)
    if steady is None or peaks is None:
        return
    severity = Severity.INFO if bus.redundancy is None else Severity.WARNING
    for link in link_loads(part, steady):
        if link.supply in bus.supplies or (link.kind is LinkKind.FEED and loss.feed not in ("", link.name)):
            yield load.margin(link, Basis.LOSS, link.ratio, severity, loss=loss)
    for link in link_loads(part, peaks):
        if link.kind is LinkKind.SUPPLY and link.supply in bus.supplies:
            yield load.margin(link, Basis.PEAKS, link.ratio / load.levels.over_current_ratio, severity, loss=loss)


def _left(part: Wiring, draws: Mapping[str, Draw], lost: frozenset[str]) -> dict[str, Draw] | None:
    """Return the draws after a loss, 0 A for what was lost; None if a bus is left without any supply."""
    after = after_loss(part, draws, lost)
    if after is None:
        return None
    return after | {name: replace(draws[name], current_a=0.0) for name in lost if name in draws}
