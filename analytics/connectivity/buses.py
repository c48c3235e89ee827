"""Supplies that share a bus, as arrays: on a node with two buses the current of one is no evidence about the other."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity.kinship import ByIdentity, Kinship
from analytics.connectivity.siblings import GroupArray
from physics.rail_classes import MAIN_BUSES_V
from telemetry.entities import Entity, Topology


def bus_groups(entities: Sequence[Entity], topology: Topology) -> GroupArray:
    """Return a number for each supply, the same for those of one node and rail that feed the same GPUs."""
    return _groups(ByIdentity(topology), ByIdentity(entities))[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buses:
    """The buses of a table's supplies, worked out again only when the topology is another one.

    `groups` numbers the buses, `sharing` the sets of supplies that take over from each other. The two differ where a
    bus is not known: a supply without a nominal voltage, or one that feeds the GPUs of two buses, may be on either, so
    these are one set. On a node whose wiring is not described the supplies of a rail are one set.
    """

    topology: Topology | None
    groups: GroupArray
    sharing: GroupArray

    def under(self, topology: Topology, entities: Sequence[Entity]) -> "Buses":
        """Return the buses under this topology."""
        if self.topology is topology:
            return self
        groups, sharing = _groups(ByIdentity(topology), ByIdentity(entities))
        return Buses(topology=topology, groups=groups, sharing=sharing)


@lru_cache(maxsize=16)
def _groups(topology: ByIdentity[Topology], entities: ByIdentity[Sequence[Entity]]) -> tuple[GroupArray, GroupArray]:
    kinship = Kinship.of(topology.it)
    known = [(kinship.top(one.id), frozenset(kinship.gpus_under(one.id))) for one in entities.it]
    numbers: dict[Hashable, int] = {}
    buses = [
        numbers.setdefault((top, gpus, one.rail), len(numbers))
        for one, (top, gpus) in zip(entities.it, known, strict=True)
    ]
    groups = np.array(buses, dtype=np.intp)
    sharing = _joined(len(buses), [*_may_share(entities.it, known)])
    for array in (groups, sharing):
        array.flags.writeable = False  # several have it
    return groups, sharing


def _may_share(entities: Sequence[Entity], known: Sequence[tuple[str, frozenset[str]]]) -> Iterator[list[int]]:
    """Yield the places of supplies that feed a GPU in common, or none, from one rail or from one that is not known.

    48 and 54 V count as one: a loaded rail of 54 V may read as one of 48 V.
    """
    rails: dict[tuple[str, str, str], dict[float | None, list[int]]] = {}
    for place, (entity, (top, gpus)) in enumerate(zip(entities, known, strict=True)):
        nominal_v, source = entity.rail
        rail_v = max(MAIN_BUSES_V) if nominal_v in MAIN_BUSES_V else nominal_v
        for gpu in gpus or ("",):
            rails.setdefault((top, source, gpu), {}).setdefault(rail_v, []).append(place)
    for by_rail in rails.values():
        if None in by_rail:
            yield [place for members in by_rail.values() for place in members]
        else:
            yield from by_rail.values()


def _joined(n_places: int, sets: Sequence[Sequence[int]]) -> GroupArray:
    """Return a number for each place, the same for places that sets join, in order of their first place."""
    above = list(range(n_places))

    def first(place: int) -> int:
        while above[place] != place:
            above[place] = above[above[place]]
            place = above[place]
        return place

    for members in sets:
        roots = {first(place) for place in members}
        for root in roots:
            above[root] = min(roots)
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(first(place), len(numbers)) for place in range(n_places)], dtype=np.intp)
