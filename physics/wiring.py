"""Wiring of a node: which supplies share a bus, what each bus feeds, and through which plugs.

A supply puts its power on one bus. A bus feeds branches, which end at GPUs, a board or fans, and converters, which are
supplies of another bus: 54 V bus, converter, 12 V bus. A shelf holds supplies as modules.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from physics.breakers import BreakerCurve
from telemetry.controller_names import rail_key
from telemetry.entities import Entity

# Digits of the domain, bus and device of a PCI address; NVML writes eight for the domain where sysfs writes four.
_DOMAIN_DIGITS = 4


class Origin(StrEnum):
    """What a wiring is known from."""

    CONFIGURED = "configured"
    SIMULATED = "simulated"
    RECORDED = "recorded"
    INFERRED = "inferred"


class Redundancy(StrEnum):
    """Supplies of a bus beyond those that its load needs: none, one, two, or as many again."""

    N = "N"
    N_PLUS_1 = "N+1"
    N_PLUS_2 = "N+2"
    N_PLUS_N = "N+N"

    def spare(self, n_supplies: int) -> int:
        """Return how many of that many supplies may be lost."""
        if self is Redundancy.N_PLUS_N:
            return n_supplies // 2
        return {Redundancy.N: 0, Redundancy.N_PLUS_1: 1, Redundancy.N_PLUS_2: 2}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugs:
    """Equal plugs side by side; `rating_a` and `peak_a` are of one plug, None where unknown."""

    name: str
    count: int = 1
    rating_a: float | None = None
    peak_a: float | None = None

    @property
    def total_rating_a(self) -> float | None:
        """Continuous current of all of them, if it divides evenly; None where unknown."""
        return None if self.rating_a is None else self.rating_a * self.count

    @property
    def label(self) -> str:
        """Name with the count, such as ``2x XT60``."""
        return self.name if self.count == 1 else f"{self.count}x {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MainsFeed:
    """Feed that supplies draw from: a circuit or a PDU. `breaker_a` is the rating of its breaker, None if unknown."""

    name: str
    nominal_v: float | None = None
    breaker_a: float | None = None
    curve: BreakerCurve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Power shelf whose modules are supplies."""

    name: str
    rated_w: float | None = None
    feed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredSupply:
    """Supply of a bus.

    Parameters
    ----------
    name
        Name of the supply.
    sensors
        Keys or names of the measured entities that show it.
    rated_w, nominal_v
        Rated power and voltage of its output; None where unknown.
    feed, shelf, from_bus
        Feed that it draws from, shelf that holds it, and bus that a converter draws from; empty where there is none.
    inlet
        Plug on its input side.
    plugs
        Plugs between its output and the bus, in the order of the current.
    """

    name: str
    sensors: tuple[str, ...]
    rated_w: float | None = None
    nominal_v: float | None = None
    feed: str = ""
    shelf: str = ""
    from_bus: str = ""
    inlet: Plugs | None = None
    plugs: tuple[Plugs, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Branch of a bus to its loads.

    Parameters
    ----------
    gpus
        GPUs by index, name, UUID or PCI address; None for every GPU of the node.
    board
        Name of the board that it feeds, empty for none.
    fans
        True if it feeds the fans.
    plugs
        Plugs that the current of all its loads passes.
    plugs_each
        Plugs of each GPU by itself.
    """

    gpus: tuple[str, ...] | None = ()
    board: str = ""
    fans: bool = False
    plugs: tuple[Plugs, ...] = ()
    plugs_each: tuple[Plugs, ...] = ()

    def feeds(self, gpu: Entity) -> bool:
        """Return True if the branch ends at this GPU."""
        return self.gpus is None or any(names_gpu(reference, gpu) for reference in self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus:
    """Conductor that supplies share.

    `joins` names buses that a bar or cable ties to it, `sensors` the rails of the board that show its voltage.
    """

    name: str
    nominal_v: float | None
    supplies: tuple[str, ...]
    branches: tuple[Branch, ...] = ()
    redundancy: Redundancy | None = None
    joins: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()


def is_shown_by(entity: Entity, sensor: str) -> bool:
    """Return True if a description means a measured entity by a sensor: its key, its name, of a rail any spelling."""
    return sensor in (entity.key, entity.name) or (entity.is_rail_of_board and rail_key(sensor) == entity.key)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Index:
    """Places of supplies in their list, by name, sensor, rail of the board, feed, shelf, and bus of a converter."""

    bus_of: Mapping[str, Bus]
    by_name: Mapping[str, Sequence[int]]
    by_sensor: Mapping[str, Sequence[int]]
    by_rail: Mapping[str, Sequence[int]]
    by_feed: Mapping[str, Sequence[int]]
    by_shelf: Mapping[str, Sequence[int]]
    by_source: Mapping[str, Sequence[int]]

    @staticmethod
    def of(supplies: Sequence[WiredSupply], buses: Sequence[Bus]) -> "_Index":
        return _Index(
            bus_of={supply: bus for bus in buses for supply in bus.supplies},
            by_name=_places((one.name,) for one in supplies),
            by_sensor=_places(one.sensors for one in supplies),
            by_rail=_places([rail_key(sensor) for sensor in one.sensors] for one in supplies),
            by_feed=_places((one.feed,) for one in supplies),
            by_shelf=_places((one.shelf,) for one in supplies),
            by_source=_places((one.from_bus,) for one in supplies),
        )


def _places(names: Iterable[Sequence[str]]) -> Mapping[str, Sequence[int]]:
    """Return the places in a list of lists of names at which each name is, in order."""
    found: dict[str, list[int]] = {}
    for place, own in enumerate(names):
        for name in own:
            found.setdefault(name, []).append(place)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Wiring of one node; supplies and buses refer to each other by name, each supply is on one bus."""

    origin: Origin
    supplies: tuple[WiredSupply, ...]
    buses: tuple[Bus, ...]
    feeds: tuple[MainsFeed, ...] = ()
    shelves: tuple[Shelf, ...] = ()
    _index: "_Index" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the supplies: the wiring of a fleet has those of every node."""
        object.__setattr__(self, "_index", _Index.of(self.supplies, self.buses))

    def supply_of(self, entity: Entity) -> WiredSupply | None:
        """Return the supply that a measured entity shows; None for one that the wiring does not name."""
        places = [place for text in (entity.key, entity.name) for place in self._index.by_sensor.get(text, ())]
        if entity.is_rail_of_board:
            places += self._index.by_rail.get(entity.key, ())
        return self.supplies[min(places)] if places else None

    def bus_of(self, supply: str) -> Bus | None:
        """Return the bus of a supply by its name; None where there is none."""
        return self._index.bus_of.get(supply)

    def on_bus(self, bus: Bus) -> tuple[WiredSupply, ...]:
        """Return the supplies of a bus."""
        return self._at(place for name in {*bus.supplies} for place in self._index.by_name.get(name, ()))

    def on_feed(self, feed: str) -> tuple[WiredSupply, ...]:
        """Return the supplies that draw from a feed."""
        return self._at(self._index.by_feed.get(feed, ()))

    def in_shelf(self, shelf: str) -> tuple[WiredSupply, ...]:
        """Return the supplies that a shelf holds."""
        return self._at(self._index.by_shelf.get(shelf, ()))

    def nominal_v_of(self, bus: Bus) -> float | None:
        """Return the nominal voltage of a bus, else that of its supplies; None where it is unknown."""
        known = (one.nominal_v for one in self.on_bus(bus) if one.nominal_v is not None)
        return bus.nominal_v if bus.nominal_v is not None else next(known, None)

    def with_shared_nominals(self) -> "Wiring":
        """Return the wiring with the nominal voltage of each bus on its supplies, and of its supplies on each bus.

        What is given stays, also where a bus and its supply contradict each other.
        """
        buses = tuple(replace(bus, nominal_v=self.nominal_v_of(bus)) for bus in self.buses)
        nominals_v = {name: bus.nominal_v for bus in buses for name in bus.supplies}
        supplies = tuple(
            replace(one, nominal_v=nominals_v.get(one.name)) if one.nominal_v is None else one for one in self.supplies
        )
        return replace(self, buses=buses, supplies=supplies)

    def converters(self, bus: Bus) -> tuple[WiredSupply, ...]:
        """Return the converters that draw from a bus."""
        return self._at(self._index.by_source.get(bus.name, ()))

    def _at(self, places: Iterable[int]) -> tuple[WiredSupply, ...]:
        return tuple(self.supplies[place] for place in sorted(places))

    def below(self, bus: Bus) -> tuple[Bus, ...]:
        """Return the buses behind the converters of this one, and behind those; itself where they lead round."""
        return self._reached(self._next_below(bus), self._next_below)

    def at_and_below(self, bus: Bus) -> tuple[Bus, ...]:
        """Return the buses that a sag of this one reaches: itself, those tied to it, those behind converters."""
        return self._reached((bus,), lambda here: (*self._tied(here), *self._next_below(here)))

    def _tied(self, bus: Bus) -> tuple[Bus, ...]:
        return tuple(other for other in self.buses if other.name in bus.joins or bus.name in other.joins)

    def _next_below(self, bus: Bus) -> tuple[Bus, ...]:
        homes = (self.bus_of(converter.name) for converter in self.converters(bus))
        return tuple(home for home in homes if home is not None)

    @staticmethod
    def _reached(start: Iterable[Bus], onward: Callable[[Bus], Iterable[Bus]]) -> tuple[Bus, ...]:
        found: dict[str, Bus] = {}
        waiting = [*start]
        while waiting:
            here = waiting.pop(0)
            if here.name not in found:
                found[here.name] = here
                waiting += onward(here)
        return tuple(found.values())

    def gpus_of(self, bus: Bus, gpus: Sequence[Entity]) -> tuple[Entity, ...]:
        """Return the GPUs that a sag of this bus reaches, in their order."""
        branches = [branch for reached in self.at_and_below(bus) for branch in reached.branches]
        return tuple(gpu for gpu in gpus if any(branch.feeds(gpu) for branch in branches))

    def unfed(self, gpus: Iterable[Entity]) -> tuple[Entity, ...]:
        """Return the GPUs that no branch names."""
        branches = [branch for bus in self.buses for branch in bus.branches]
        return tuple(gpu for gpu in gpus if not any(branch.feeds(gpu) for branch in branches))


def names_gpu(reference: str, gpu: Entity) -> bool:
    """Return True if an index, name, UUID or PCI address means this GPU."""
    text = reference.casefold()
    if text.isdecimal():
        return gpu.name == f"gpu{int(text)}"
    return text in (gpu.key.casefold(), gpu.name.casefold()) or pci_address(text) == pci_address(gpu.tag("pci") or "-")


def pci_address(text: str) -> str:
    """Return a PCI address as sysfs writes it, ``0000:3b:00.0``, whatever its domain; other text unchanged."""
    parts = text.casefold().split(":")
    if len(parts) == 2:
        parts = ["0" * _DOMAIN_DIGITS, *parts]
    return ":".join((parts[0][-_DOMAIN_DIGITS:], *parts[1:])) if len(parts) > 1 else text.casefold()
