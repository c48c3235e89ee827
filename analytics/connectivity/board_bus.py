"""Bus of 48 or 54 V behind the board rail of each node, where the wiring leaves no doubt which one it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity.kinship import ByIdentity, Kinship
from physics.rail_classes import MAIN_BUSES_V
from telemetry.entities import BUS_TAG, Entity, EntityKind, Topology
from telemetry.frames import FloatArray, MaskArray

_SUPPLY_ID = f"{EntityKind.SUPPLY}:"
# Nominal voltage, name where it is tagged, and GPUs of a bus.
MainBus = tuple[float | None, str, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoardBuses:
    """Board rail of each node of a table, worked out again only when the topology is another one.

    `nominal_v` is what the supplies of its bus are tagged with, NaN where none is. `single` marks nodes without a
    second bus of 48 or 54 V, all of whose GPUs hang on the one there is: a controller measures one rail of the board,
    and nothing names the bus that it is on. Both of shape ``(n_nodes,)``.
    """

    topology: Topology | None
    nominal_v: FloatArray
    single: MaskArray

    def under(self, topology: Topology, entities: Sequence[Entity]) -> "BoardBuses":
        """Return the buses under this topology."""
        if self.topology is topology:
            return self
        nominal_v, single = _board_buses(ByIdentity(topology), ByIdentity(entities))
        return BoardBuses(topology=topology, nominal_v=nominal_v, single=single)


def main_buses(node_id: str, topology: Topology) -> frozenset[MainBus]:
    """Return the buses of 48 and 54 V below a node; several where supplies are tagged so, or feed other GPUs."""
    kinship = Kinship.of(topology)
    held = [one for one in kinship.descendants(node_id) if one.startswith(_SUPPLY_ID)]
    supplies = [one for one in map(topology.entity, held) if one.nominal_v in MAIN_BUSES_V]
    return frozenset((one.nominal_v, one.tag(BUS_TAG) or "", frozenset(kinship.gpus_under(one.id))) for one in supplies)


@lru_cache(maxsize=16)
def _board_buses(
    topology: ByIdentity[Topology], entities: ByIdentity[Sequence[Entity]]
) -> tuple[FloatArray, MaskArray]:
    kinship = Kinship.of(topology.it)
    nominal_v, single = np.full(len(entities.it), np.nan), np.zeros(len(entities.it), dtype=np.bool_)
    for place, node in enumerate(entities.it):
        buses = main_buses(node.id, topology.it)
        gpus = frozenset(kinship.gpus_under(node.id))
        single[place] = not buses or (len(buses) == 1 and all(fed == gpus for _, _, fed in buses))
        nominal_v[place] = next((own_v for own_v, _, _ in buses if own_v is not None), np.nan)
    for array in (nominal_v, single):
        array.flags.writeable = False  # several have it
    return nominal_v, single
