"""Load of each link of a wiring against its rating: supplies, shelves, plugs, inlets, feeds, and branches to GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from physics.breakers import TRIP_CURVES, BreakerCurve
from physics.plugs import SLOT_W, plug_type
from physics.wiring import Bus, MainsFeed, Plugs, Shelf, WiredSupply, Wiring
from telemetry.entities import Entity

# Efficiency of a supply whose input is not measured: the lowest of 20, 50 and 100 % load that 80 PLUS Gold asks for,
# 87 % of 115 V supplies and 88 % of redundant ones of 230 V. heuristic: class Gold. Supplies of a better class draw up
# to 6 % less than is taken here.
_EFFICIENCY_115_V, _EFFICIENCY_230_V = 0.87, 0.88
_HIGHER_FROM_V = 150.0
# heuristic: shares of output over measured input that two meters of 2 % each may show; others are of a meter that shows
# something else, such as the input of the whole shelf.
_PLAUSIBLE_EFFICIENCY = (0.3, 1.05)


class LinkKind(StrEnum):
    """Kind of link."""

    SUPPLY = "supply"
    PLUGS = "plugs"
    INLET = "inlet"
    FEED = "feed"
    SHELF = "shelf"
    BRANCH = "branch"
    GPU_PLUGS = "gpu plugs"


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
class InputSide:
    """What is measured on the input side.

    Parameters
    ----------
    efficiency
        Output over input power of each supply whose input is measured, at most 1.
    extra_a
        Current of each feed with a meter of its own, beyond that of its measured supplies; negative where they are
        taken to draw more than the meter shows.
    """

    efficiency: Mapping[str, float] = field(default_factory=dict)
    extra_a: Mapping[str, float] = field(default_factory=dict)

    def efficiency_of(self, supply: str, nominal_v: float) -> float:
        """Return the efficiency of a supply, measured or that of its class at a voltage of its feed."""
        known = _EFFICIENCY_115_V if nominal_v < _HIGHER_FROM_V else _EFFICIENCY_230_V
        return self.efficiency.get(supply, known)


NOT_METERED = InputSide()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """Load of a link and its rating, both in `unit`; `shed_w` is the output power above the rating, 0 if there is none.

    `supply` is empty for a feed, a shelf and a branch, `gpus` has the ids of the GPUs at the end of a branch, empty
    elsewhere. `peak_rating` is what the link bears for a short time, `trip` what its breaker does; None where unknown.
    `others` is the part of the load that the measured supplies do not draw, `at_least` is True where more may flow than
    the load that is known.
    """

    kind: LinkKind
    name: str
    supply: str
    load: float
    rating: float
    unit: str
    shed_w: float
    trip: Trip | None = None
    peak_rating: float | None = None
    gpus: tuple[str, ...] = ()
    others: float = 0.0
    at_least: bool = False

    @property
    def ratio(self) -> float:
        """Load over rating."""
        return self.load / self.rating


def trip_of(current_ratio: float, curve: BreakerCurve) -> Trip:
    """Return what a breaker does at a current over its rating; between its limits the earlier trip is taken."""
    known = TRIP_CURVES[curve]
    if current_ratio >= known.instant_ratio[0]:
        return Trip.INSTANT
    if current_ratio >= known.trips_ratio:
        return Trip.TRIPS
    return Trip.MAY if current_ratio > known.holds_ratio else Trip.HOLDS


def input_side(
    wiring: Wiring, draws: Mapping[str, Draw], *, inputs_w: Mapping[str, float], feeds_a: Mapping[str, float]
) -> InputSide:
    """Return the input side of measured input powers, by supply, and of the meters of whole feeds, by feed."""
    low, high = _PLAUSIBLE_EFFICIENCY
    shares = {
        name: draws[name].power_w / input_w for name, input_w in inputs_w.items() if name in draws and input_w > 0
    }
    known = InputSide(efficiency={name: min(share, 1.0) for name, share in shares.items() if low < share <= high})
    extra_a = {}
    for feed in wiring.feeds:
        if feed.name in feeds_a and feed.nominal_v is not None:
            drawn_w = _drawn_w(_fed(wiring, feed), draws, known, feed.nominal_v)
            extra_a[feed.name] = feeds_a[feed.name] - drawn_w / feed.nominal_v
    return replace(known, extra_a=extra_a)


def link_loads(wiring: Wiring, draws: Mapping[str, Draw], *, inputs: InputSide = NOT_METERED) -> Iterator[LinkLoad]:
    """Yield the load of each link of supplies, shelves and feeds whose rating is known and whose supplies are measured.

    A feed with a meter of its own needs none of them.
    """
    feeds = {feed.name: feed for feed in wiring.feeds}
    for supply in wiring.supplies:
        draw = draws.get(supply.name)
        if draw is not None:
            yield from _supply_links(supply, draw, feeds.get(supply.feed), inputs)
    for feed in wiring.feeds:
        yield from _feed_link(feed, _fed(wiring, feed), draws, inputs)
    for shelf in wiring.shelves:
        yield from _shelf_link(shelf, [one.name for one in wiring.in_shelf(shelf.name)], draws)


def branch_loads(
    bus: Bus, *, voltage_v: float, gpus: Sequence[Entity], powers_w: Mapping[str, float]
) -> Iterator[LinkLoad]:
    """Yield the load of the plugs of each branch of a bus, and of those of each GPU; `powers_w` is by GPU id.

    Plugs of a branch are left out where the power of one of its GPUs is unknown. A card with auxiliary plugs may draw a
    part of its power from its slot, and a branch may feed a board or fans as well: at least the rest flows then.
    """
    for branch in bus.branches:
        fed = [gpu for gpu in gpus if branch.feeds(gpu)]
        ends = [(plugs, fed) for plugs in branch.plugs] if all(gpu.id in powers_w for gpu in fed) and fed else []
        single = [(plugs, [gpu]) for gpu in fed if gpu.id in powers_w for plugs in branch.plugs_each]
        feeds_more = bool(branch.board) or branch.fans
        for kind, found in ((LinkKind.BRANCH, ends), (LinkKind.GPU_PLUGS, single)):
            for plugs, at_end in found:
                slot_w = _slot_w(plugs)
                current_a = sum(max(powers_w[gpu.id] - slot_w, 0.0) for gpu in at_end) / voltage_v
                at_least = slot_w > 0.0 or (kind is LinkKind.BRANCH and feeds_more)
                for link in _plug_link(kind, "", plugs, current_a, voltage_v):
                    yield replace(link, gpus=tuple(gpu.id for gpu in at_end), at_least=at_least)


def _slot_w(plugs: Plugs) -> float:
    """Return the most power that a card with such plugs draws from its slot."""
    known = plug_type(plugs.name)
    return SLOT_W if known is not None and known.beside_slot else 0.0


def _fed(wiring: Wiring, feed: MainsFeed) -> tuple[str, ...]:
    return tuple(one.name for one in wiring.on_feed(feed.name))


def _drawn_w(supplies: Sequence[str], draws: Mapping[str, Draw], inputs: InputSide, nominal_v: float) -> float:
    """Return the input power of the measured ones of some supplies."""
    return sum(draws[name].power_w / inputs.efficiency_of(name, nominal_v) for name in supplies if name in draws)


def _feed_link(
    feed: MainsFeed, supplies: Sequence[str], draws: Mapping[str, Draw], inputs: InputSide
) -> Iterator[LinkLoad]:
    if feed.breaker_a is None or feed.nominal_v is None:
        return
    extra_a = inputs.extra_a.get(feed.name)
    if extra_a is None and not (supplies and all(name in draws for name in supplies)):
        return
    drawn_w = _drawn_w(supplies, draws, inputs, feed.nominal_v)
    load_a = drawn_w / feed.nominal_v + (extra_a or 0.0)
    output_w = sum(draws[name].power_w for name in supplies if name in draws)
    w_per_a = feed.nominal_v * (output_w / drawn_w if drawn_w > 0.0 else 1.0)
    yield LinkLoad(
        kind=LinkKind.FEED,
        name=feed.name,
        supply="",
        load=load_a,
        rating=feed.breaker_a,
        unit="A",
        shed_w=max(load_a - feed.breaker_a, 0.0) * w_per_a,
        trip=None if feed.curve is None else trip_of(load_a / feed.breaker_a, feed.curve),
        others=extra_a or 0.0,
    )


def _shelf_link(shelf: Shelf, modules: Sequence[str], draws: Mapping[str, Draw]) -> Iterator[LinkLoad]:
    if shelf.rated_w is not None and modules and all(name in draws for name in modules):
        yield _power_link(LinkKind.SHELF, shelf.name, "", sum(draws[name].power_w for name in modules), shelf.rated_w)


def _supply_links(supply: WiredSupply, draw: Draw, feed: MainsFeed | None, inputs: InputSide) -> Iterator[LinkLoad]:
    if supply.rated_w is not None:
        yield _power_link(LinkKind.SUPPLY, supply.name, supply.name, draw.power_w, supply.rated_w)
    for plugs in supply.plugs:
        yield from _plug_link(LinkKind.PLUGS, supply.name, plugs, draw.current_a, draw.voltage_v)
    if supply.inlet is not None and feed is not None and feed.nominal_v is not None:
        w_per_a = feed.nominal_v * inputs.efficiency_of(supply.name, feed.nominal_v)
        yield from _plug_link(LinkKind.INLET, supply.name, supply.inlet, draw.power_w / w_per_a, w_per_a)


def _power_link(kind: LinkKind, name: str, supply: str, load_w: float, rated_w: float) -> LinkLoad:
    return LinkLoad(
        kind=kind,
        name=name,
        supply=supply,
        load=load_w,
        rating=rated_w,
        unit="W",
        shed_w=max(load_w - rated_w, 0.0),
    )


def _plug_link(kind: LinkKind, supply: str, plugs: Plugs, current_a: float, w_per_a: float) -> Iterator[LinkLoad]:
    rating_a = plugs.total_rating_a
    if rating_a is not None:
        yield LinkLoad(
            kind=kind,
            name=plugs.label,
            supply=supply,
            load=current_a,
            rating=rating_a,
            unit="A",
            shed_w=max(current_a - rating_a, 0.0) * w_per_a,
            peak_rating=None if plugs.peak_a is None else plugs.peak_a * plugs.count,
        )
