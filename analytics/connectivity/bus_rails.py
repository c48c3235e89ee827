"""Rails of the board that show one of several buses of 48 or 54 V, with the supplies of that bus."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity.board_bus import BoardBuses, main_buses
from analytics.connectivity.kinship import ByIdentity, Kinship
from physics.rail_classes import MAIN_BUSES_V
from telemetry.entities import BUS_TAG, SOURCE_TAG, Entity, Topology
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BusRails:
    """Rails of the board on nodes with several main buses, among the entities of a table of supplies.

    `buses` marks each such rail as one that is judged, with its nominal voltage; `places` are the positions of the
    rails, `on_bus` marks the supplies whose bus each of them shows, shape ``(n_rails, n_supplies)``: none for a rail of
    which the bus is not known.
    """

    buses: BoardBuses
    places: tuple[int, ...]
    on_bus: MaskArray

    @staticmethod
    def of(entities: Sequence[Entity], topology: Topology) -> "BusRails":
        """Return the rails of a table's entities under a topology; the newest few are kept."""
        return _bus_rails(ByIdentity(entities), ByIdentity(topology))

    def spread(self, of_rails: FloatArray) -> FloatArray:
        """Return values of the rails as values of all entities of the table, NaN at the others."""
        values = np.full(self.on_bus.shape[1], np.nan)
        values[list(self.places)] = of_rails
        return values


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
    on_bus = np.zeros((len(places), len(entities.it)), dtype=np.bool_)
    for row, place in enumerate(places):
        rail = entities.it[place]
        for column, other in enumerate(entities.it):
            is_alike = (nodes[column], other.tag(BUS_TAG)) == (nodes[place], rail.tag(BUS_TAG) or "")
            on_bus[row, column] = is_alike and not other.is_rail_of_board and other.nominal_v == rail.nominal_v
    nominal_v = np.full(len(entities.it), np.nan)
    nominal_v[list(places)] = [entities.it[place].nominal_v for place in places]
    buses = BoardBuses(topology=topology.it, nominal_v=nominal_v, single=np.isfinite(nominal_v))
    for array in (on_bus, buses.nominal_v, buses.single):
        array.flags.writeable = False  # several have it
    return BusRails(buses=buses, places=places, on_bus=on_bus)


def bus_label(rail: Entity) -> str:
    """Return a rail of the board as people write it, with its bus: ``bus0 (P54V_A)``."""
    sensor = rail.label.removesuffix(f" ({rail.tag(SOURCE_TAG)})")
    bus = rail.tag(BUS_TAG)
    return f"{sensor}, bus not known" if bus is None else f"{bus} ({sensor})"
