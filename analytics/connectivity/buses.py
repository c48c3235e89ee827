"""Supplies that share a bus, as arrays: on a node with two buses the current of one is no evidence about the other."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity.kinship import ByIdentity, Kinship
from analytics.connectivity.siblings import GroupArray
from telemetry.entities import Entity, Topology


def bus_groups(entities: Sequence[Entity], topology: Topology) -> GroupArray:
    """Return a number for each supply, the same for those of one node and rail that feed the same GPUs."""
    return _groups(ByIdentity(topology), ByIdentity(entities))


@lru_cache(maxsize=16)
def _groups(topology: ByIdentity[Topology], entities: ByIdentity[Sequence[Entity]]) -> GroupArray:
    kinship = Kinship.of(topology.it)
    numbers: dict[Hashable, int] = {}
    found = []
    for entity in entities.it:
        bus = (kinship.top(entity.id), frozenset(kinship.gpus_under(entity.id)), entity.rail)
        found.append(numbers.setdefault(bus, len(numbers)))
    groups = np.array(found, dtype=np.intp)
    groups.flags.writeable = False  # several have it
    return groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buses:
    """The buses of a table's supplies, worked out again only when the topology is another one."""

    topology: Topology | None
    groups: GroupArray

    def under(self, topology: Topology, entities: Sequence[Entity]) -> "Buses":
        """Return the buses under this topology."""
        if self.topology is topology:
            return self
        return Buses(topology=topology, groups=bus_groups(entities, topology))
