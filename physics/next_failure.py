"""Loss of one supply or feed (N-1): what is lost together, what the rest carries then, and at what voltage."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from physics.link_loads import Draw
from physics.wiring import Bus, Redundancy, Wiring

# heuristic: a supply with less than a twentieth of the current of the busiest on its bus is off or on standby: what it
# would carry is not known, so it is not counted on.
_CARRIES_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Supplies of one bus that go together: one or some of them, or all that draw from a feed.

    `feed` is the name of the feed, empty for supplies by themselves.
    """

    supplies: frozenset[str]
    feed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """Supplies of a bus for which the loss of one cannot be judged, and the reason as a phrase without a subject."""

    bus: str
    supplies: tuple[str, ...]
    reason: str


def carrying(bus: Bus, draws: Mapping[str, Draw]) -> dict[str, Draw]:
    """Return the draws of the supplies that carry the bus; without those that are off, on standby or not measured."""
    own = {name: draws[name] for name in bus.supplies if name in draws}
    most_a = max((one.current_a for one in own.values()), default=0.0)
    return {name: one for name, one in own.items() if one.current_a > _CARRIES_RATIO * most_a}


def is_tied(wiring: Wiring, bus: Bus) -> bool:
    """Return True for a bus that a bar or cable ties to another: they share their load in a way that is not known."""
    return bool(bus.joins) or any(bus.name in other.joins for other in wiring.buses)


def unjudged(wiring: Wiring, bus: Bus, draws: Mapping[str, Draw]) -> Iterator[Unjudged]:
    """Yield why the loss of a supply or feed of a bus cannot be judged, or not for all; nothing where it can.

    A bus with one supply has none to lose, and one that is described as not redundant bears no loss.
    """
    own = wiring.on_bus(bus)
    if len(own) < 2 or bus.redundancy is Redundancy.N:
        return
    if is_tied(wiring, bus):
        yield Unjudged(bus=bus.name, supplies=bus.supplies, reason="share their load with a tied bus, in unknown parts")
        return
    missing = tuple(one.name for one in own if one.name not in draws)
    if missing:
        yield Unjudged(bus=bus.name, supplies=missing, reason="not measured")
        return
    carries = carrying(bus, draws)
    unrated = tuple(one.name for one in own if one.rated_w is None)
    if unrated:
        yield Unjudged(bus=bus.name, supplies=unrated, reason="no rating given")
    idle = tuple(one.name for one in own if one.name not in carries)
    if idle and carries:
        yield Unjudged(bus=bus.name, supplies=idle, reason="no current now, so not counted on after a loss")


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
    N+N is redundancy over feeds too, N+1 and N+2 are not. Nothing is yielded for tied buses.
    """
    spare = 1 if bus.redundancy is None else bus.redundancy.spare(len(bus.supplies))
    if is_tied(wiring, bus) or not spare:
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


def fallen_v(before: Mapping[str, Draw], after: Mapping[str, Draw], source_ohm: Mapping[str, float]) -> float | None:
    """Return the lowest voltage of the supplies that are left, by what the source of each drops at its new current.

    None unless the source resistance of each is known.
    """
    if not after or any(name not in source_ohm for name in after):
        return None
    return min(
        before[name].voltage_v - source_ohm[name] * (draw.current_a - before[name].current_a)
        for name, draw in after.items()
    )


def _shares(wiring: Wiring, bus: Bus, draws: Mapping[str, Draw]) -> dict[str, float]:
    left = [one for one in wiring.on_bus(bus) if one.name in draws]
    ratings = [one.rated_w for one in left if one.rated_w is not None]
    weights = ratings if len(ratings) == len(left) else [max(draws[one.name].current_a, 0.0) for one in left]
    total = sum(weights)
    return {one.name: weight / total for one, weight in zip(left, weights, strict=True)} if total > 0.0 else {}
