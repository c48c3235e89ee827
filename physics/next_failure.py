"""Load of each link of a wiring against its rating, as it is and with a supply or feed lost (N-1)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from physics.breakers import TRIP_CURVES, BreakerCurve
from physics.wiring import Bus, MainsFeed, Plugs, Redundancy, WiredSupply, Wiring

# heuristic: 80 PLUS Gold asks for 90 % at half load and 87 % at full load on 115 V; used where the input is not
# measured.
EFFICIENCY = 0.90
# heuristic: a supply with less than a twentieth of the current of the busiest on its bus is off or on standby: what it
# would carry is not known, so it is not counted on.
_CARRIES_RATIO = 0.05


class LinkKind(StrEnum):
    """Kind of link."""

    SUPPLY = "supply"
    PLUGS = "plugs"
    INLET = "inlet"
    FEED = "feed"


class Trip(StrEnum):
    """Response of a breaker to a current that lasts."""

    HOLDS = "holds"
    MAY = "may trip within an hour"
    TRIPS = "trips within an hour"
    INSTANT = "trips at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Voltage and current at the output of a supply."""

    voltage_v: float
    current_a: float

    @property
    def power_w(self) -> float:
        """Output power."""
        return self.voltage_v * self.current_a


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """Load of a link and its rating, both in `unit`; `shed_w` is the output power above the rating, 0 if there is none.

    `supply` is empty for a feed, `trip` is None for a link without a trip curve.
    """

    kind: LinkKind
    name: str
    supply: str
    load: float
    rating: float
    unit: str
    shed_w: float
    trip: Trip | None = None

    @property
    def ratio(self) -> float:
        """Load over rating."""
        return self.load / self.rating


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Supplies of one bus that go together: one or some of them, or all that draw from a feed.

    `feed` is the name of the feed, empty for supplies by themselves.
    """

    supplies: frozenset[str]
    feed: str = ""


def trip_of(current_ratio: float, curve: BreakerCurve) -> Trip:
    """Return what a breaker does at a current over its rating; between its limits the earlier trip is taken."""
    known = TRIP_CURVES[curve]
    if current_ratio >= known.instant_ratio[0]:
        return Trip.INSTANT
    if current_ratio >= known.trips_ratio:
        return Trip.TRIPS
    return Trip.MAY if current_ratio > known.holds_ratio else Trip.HOLDS


def carrying(bus: Bus, draws: Mapping[str, Draw]) -> dict[str, Draw]:
    """Return the draws of the supplies that carry the bus; without those that are off, on standby or not measured."""
    own = {name: draws[name] for name in bus.supplies if name in draws}
    most_a = max((one.current_a for one in own.values()), default=0.0)
    return {name: one for name, one in own.items() if one.current_a > _CARRIES_RATIO * most_a}


def single_losses(wiring: Wiring, bus: Bus, carrying: Iterable[str]) -> Iterator[Loss]:
    """Yield the loss of each supply that carries a bus, and of each of several feeds; none where one is left alone."""
    known = [one for one in wiring.on_bus(bus) if one.name in {*carrying}]
    if len(known) > 1:
        yield from (Loss(supplies=frozenset({one.name})) for one in known)
    by_feed = sorted(known, key=lambda one: one.feed)
    feeds = {feed: [one.name for one in group] for feed, group in groupby(by_feed, key=lambda one: one.feed)}
    if len(feeds) > 1:
        yield from (Loss(supplies=frozenset(names), feed=feed) for feed, names in feeds.items() if feed)


def allowed_losses(wiring: Wiring, bus: Bus, draws: Mapping[str, Draw]) -> Iterator[Loss]:
    """Yield what a bus must bear by its redundancy; any one supply or feed where that is not described.

    Where two or more supplies may be lost, those of the largest rating are, and of the highest current among equals.
    N+N is redundancy over feeds too, N+1 and N+2 are not. Buses that are tied share their load in a way that is not
    known: nothing is yielded for them.
    """
    tied = bus.joins or any(bus.name in other.joins for other in wiring.buses)
    spare = 1 if bus.redundancy is None else bus.redundancy.spare(len(bus.supplies))
    if tied or not spare:
        return
    over_feeds = bus.redundancy in (None, Redundancy.N_PLUS_N)
    singles = [*single_losses(wiring, bus, draws)]
    yield from (one for one in singles if (over_feeds if one.feed else spare == 1))
    if spare > 1:
        carrying = [one for one in wiring.on_bus(bus) if one.name in draws]
        carrying.sort(key=lambda one: (one.rated_w or 0.0, draws[one.name].current_a, one.name))
        lost = frozenset(one.name for one in carrying[-spare:])
        if len(lost) < len(carrying):
            yield Loss(supplies=lost)


def after_loss(wiring: Wiring, draws: Mapping[str, Draw], lost: frozenset[str]) -> dict[str, Draw] | None:
    """Return the draws of the remaining supplies once some are lost; None if a bus is left without any supply.

    The current of a lost supply moves to the others of its bus in proportion to their ratings, to their present
    currents where a rating is unknown. Voltages are kept: a bus that sags draws more.
    """
    after = {name: draw for name, draw in draws.items() if name not in lost}
    for bus in wiring.buses:
        moved_a = sum(draws[name].current_a for name in bus.supplies if name in lost and name in draws)
        if moved_a <= 0.0:
            continue
        shares = _shares(wiring, bus, after)
        if not shares:
            return None
        for name, share in shares.items():
            after[name] = Draw(voltage_v=after[name].voltage_v, current_a=after[name].current_a + share * moved_a)
    return after


def _shares(wiring: Wiring, bus: Bus, draws: Mapping[str, Draw]) -> dict[str, float]:
    left = [one for one in wiring.on_bus(bus) if one.name in draws]
    ratings = [one.rated_w for one in left if one.rated_w is not None]
    weights = ratings if len(ratings) == len(left) else [max(draws[one.name].current_a, 0.0) for one in left]
    total = sum(weights)
    return {one.name: weight / total for one, weight in zip(left, weights, strict=True)} if total > 0.0 else {}


def link_loads(wiring: Wiring, draws: Mapping[str, Draw], *, efficiency: float = EFFICIENCY) -> Iterator[LinkLoad]:
    """Yield the load of each link whose rating is known and whose supplies are all measured."""
    feeds = {feed.name: feed for feed in wiring.feeds}
    for supply in wiring.supplies:
        draw = draws.get(supply.name)
        if draw is not None:
            yield from _supply_links(supply, draw, feeds.get(supply.feed), efficiency)
    for feed in wiring.feeds:
        fed = [one.name for one in wiring.supplies if one.feed == feed.name]
        power_w = sum(draws[name].power_w for name in fed if name in draws)
        if fed and all(name in draws for name in fed) and feed.breaker_a is not None and feed.nominal_v is not None:
            load_a = power_w / efficiency / feed.nominal_v
            yield LinkLoad(
                kind=LinkKind.FEED,
                name=feed.name,
                supply="",
                load=load_a,
                rating=feed.breaker_a,
                unit="A",
                shed_w=max(load_a - feed.breaker_a, 0.0) * feed.nominal_v * efficiency,
                trip=None if feed.curve is None else trip_of(load_a / feed.breaker_a, feed.curve),
            )


def _supply_links(supply: WiredSupply, draw: Draw, feed: MainsFeed | None, efficiency: float) -> Iterator[LinkLoad]:
    if supply.rated_w is not None:
        yield LinkLoad(
            kind=LinkKind.SUPPLY,
            name=supply.name,
            supply=supply.name,
            load=draw.power_w,
            rating=supply.rated_w,
            unit="W",
            shed_w=max(draw.power_w - supply.rated_w, 0.0),
        )
    for plugs in supply.plugs:
        yield from _plug_link(LinkKind.PLUGS, supply, plugs, draw.current_a, draw.voltage_v)
    if supply.inlet is not None and feed is not None and feed.nominal_v is not None:
        input_a = draw.power_w / efficiency / feed.nominal_v
        yield from _plug_link(LinkKind.INLET, supply, supply.inlet, input_a, feed.nominal_v * efficiency)


def _plug_link(
    kind: LinkKind, supply: WiredSupply, plugs: Plugs, current_a: float, w_per_a: float
) -> Iterator[LinkLoad]:
    rating_a = plugs.total_rating_a
    if rating_a is not None:
        shed_w = max(current_a - rating_a, 0.0) * w_per_a
        yield LinkLoad(
            kind=kind,
            name=plugs.label,
            supply=supply.name,
            load=current_a,
            rating=rating_a,
            unit="A",
            shed_w=shed_w,
        )
