"""Rails of the board that show one of several buses of 48 or 54 V, with the supplies of that bus."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity.board_bus import BoardBuses, main_buses
from analytics.connectivity.kinship import ByIdentity, Kinship
from analytics.connectivity.siblings import GroupArray
from physics.rail_classes import MAIN_BUSES_V
from telemetry.controller_names import SUFFIX
from telemetry.entities import BUS_TAG, Entity, Topology
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BusRails:
    """Rails of the board on nodes with several main buses, among the entities of a table of supplies.

    `buses` marks each such rail as one that is judged, with its nominal voltage. `places` are the positions of the
    rails. Buses have numbers: `bus_of_rail` ``(n_rails,)`` is the one that each rail shows, `bus_of` ``(n_entities,)``
    the one of each supply, -1 where no rail shows it. A rail of which the bus is not known has a number of its own.
    `nominal_v` ``(n_entities,)`` is NaN where it is unknown.
    """

    buses: BoardBuses
    places: tuple[int, ...]
    bus_of_rail: GroupArray
    bus_of: GroupArray
    nominal_v: FloatArray

    @staticmethod
    def of(entities: Sequence[Entity], topology: Topology) -> "BusRails":
        """Return the rails of a table's entities under a topology; the newest few are kept."""
        return _bus_rails(ByIdentity(entities), ByIdentity(topology))

    def spread(self, of_rails: FloatArray) -> FloatArray:
        """Return values of the rails as values of all entities of the table, NaN at the others."""
        values = np.full(len(self.bus_of), np.nan)
        values[list(self.places)] = of_rails
        return values

    def sums(self, values: FloatArray, where: MaskArray) -> FloatArray:
        """Return for each rail the sum of some values ``(n_entities,)`` of the supplies of its bus."""
        counted = where & (self.bus_of >= 0)
        by_bus = np.bincount(self.bus_of[counted], weights=values[counted], minlength=len(self.places))
        return np.asarray(by_bus[self.bus_of_rail], dtype=np.float64)


@lru_cache(maxsize=16)
def _bus_rails(entities: ByIdentity[Sequence[Entity]], topology: ByIdentity[Topology]) -> BusRails:
    kinship = Kinship.of(topology.it)
    nodes = [kinship.top(one.id) if kinship.knows(one.id) else "" for one in entities.it]
    several = {node: len(main_buses(node, topology.it)) > 1 for node in dict.fromkeys(nodes)}
    places = tuple(
        place
        for place, one in enumerate(entities.it)
        if one.is_rail_of_board
        and one.nominal_v in MAIN_BUSES_V
        and (one.tag(BUS_TAG) is not None or several[nodes[place]])
    )
    keys = [(node, one.tag(BUS_TAG), one.nominal_v) for node, one in zip(nodes, entities.it, strict=True)]
    numbers: dict[Hashable, int] = {}
    shown = [numbers.setdefault(place if keys[place][1] is None else keys[place], len(numbers)) for place in places]
    supplied = [
        -1 if one.is_rail_of_board else numbers.get(key, -1) for one, key in zip(entities.it, keys, strict=True)
    ]
    bus_of_rail, bus_of = np.array(shown, dtype=np.intp), np.array(supplied, dtype=np.intp)
    nominal_v = np.array([one.nominal_v for one in entities.it], dtype=np.float64)
    rail_v = np.full(len(nominal_v), np.nan)
    rail_v[list(places)] = nominal_v[list(places)]
    buses = BoardBuses(topology=topology.it, nominal_v=rail_v, single=np.isfinite(rail_v))
    for array in (bus_of_rail, bus_of, nominal_v, buses.nominal_v, buses.single):
        array.flags.writeable = False  # several have it
    return BusRails(buses=buses, places=places, bus_of_rail=bus_of_rail, bus_of=bus_of, nominal_v=nominal_v)


def bus_label(rail: Entity) -> str:
    """Return a rail of the board as people write it, with its bus: ``bus0 (P54V_A)``."""
    sensor = rail.label.removesuffix(SUFFIX)
    bus = rail.tag(BUS_TAG)
    return f"{sensor}, bus not known" if bus is None else f"{bus} ({sensor})"
