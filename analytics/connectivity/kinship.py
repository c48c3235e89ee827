"""Kinship in the topology, and the entity that explains several others."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from telemetry.entities import EntityKind, Topology
from telemetry.records import Finding

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, eq=False)
class ByIdentity(Generic[Thing]):
    """Cache key of one object: equal to itself alone, and never hashed by value."""

    it: Thing

    def __hash__(self) -> int:
        """Return a hash that costs nothing however large the object is."""
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        """Return True if it is the very same object."""
        return isinstance(other, ByIdentity) and self.it is other.it


_GPU_ID = f"{EntityKind.GPU}:"
NODE_ID = f"{EntityKind.NODE}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinship:
    """Parents and children of every entity, indexed once; a look-up costs what it returns."""

    topology: Topology
    _parents: dict[str, tuple[str, ...]]
    _children: dict[str, tuple[str, ...]]
    _order: dict[str, int]

    @staticmethod
    def of(topology: Topology) -> "Kinship":
        """Index a topology; the newest few are kept."""
        return _indexed(ByIdentity(topology))

    def ancestors(self, entity_id: str) -> frozenset[str]:
        """Return everything above, the entity itself not included."""
        return _reach(entity_id, self._parents)

    def descendants(self, entity_id: str) -> frozenset[str]:
        """Return everything below, the entity itself not included."""
        return _reach(entity_id, self._children)

    def line(self, above_id: str, below_id: str) -> tuple[str, ...]:
        """Return the shortest chain from an entity to one below it, both included; empty where there is none."""
        came_from = {above_id: ""}
        waiting = deque([above_id])
        while waiting and below_id not in came_from:
            here = waiting.popleft()
            for child in self._children.get(here, ()):
                if child not in came_from:
                    came_from[child] = here
                    waiting.append(child)
        chain = [below_id] if below_id in came_from else []
        while chain and chain[-1] != above_id:
            chain.append(came_from[chain[-1]])
        return tuple(reversed(chain))

    def gpus_under(self, entity_id: str) -> tuple[str, ...]:
        """Return the GPUs that the entity feeds or holds, a GPU itself, in declared order."""
        at_or_below = self.descendants(entity_id) | {entity_id}
        return tuple(found for found in sorted(at_or_below, key=self._place) if found.startswith(_GPU_ID))

    def are_siblings(self, one_id: str, other_id: str) -> bool:
        """Return True if two entities share a parent."""
        shared = set(self._parents.get(one_id, ())) & set(self._parents.get(other_id, ()))
        return one_id != other_id and bool(shared)

    def common_root(self, entity_ids: Iterable[str]) -> str | None:
        """Return the lowest single entity that has all of these at or below it, None where there is none.

        Two supplies that share one bus both feed all GPUs; neither explains them better, so their node does. Where
        nothing is above such a pair, the one that was declared first is returned.
        """
        ids = tuple(dict.fromkeys(entity_ids))
        if len(ids) == 1:
            return ids[0]
        lines = [self.ancestors(entity_id) | {entity_id} for entity_id in ids]
        shared = lines[0].intersection(*lines[1:])
        if not shared:
            return None
        lowest = [one for one in shared if not shared & self.descendants(one)]
        lowest.sort(key=self._place)
        if len(lowest) > 1:
            return self.common_root(lowest) or lowest[0]
        return lowest[0]

    def top(self, entity_id: str) -> str:
        """Return the node that holds the entity, else the first of the highest entities above it, else itself.

        A node is its own, whatever feeds or cools it.
        """
        if entity_id.startswith(NODE_ID) and entity_id in self._order:
            return entity_id
        above = sorted(self.ancestors(entity_id), key=self._place)
        for candidate in above:
            if self.topology.entity(candidate).kind is EntityKind.NODE:
                return candidate
        return next((candidate for candidate in above if candidate not in self._parents), entity_id)

    def knows(self, entity_id: str) -> bool:
        """Return True if the topology has this entity."""
        return entity_id in self._order

    def label(self, entity_id: str) -> str:
        """Return the name of an entity as people write it: ``GPU 3``; its id where the topology does not know it."""
        return self.topology.entity(entity_id).label if entity_id in self._order else entity_id

    def name(self, entity_id: str) -> str:
        """Return what people call an entity, its id where the topology does not know it."""
        return self.topology.entity(entity_id).name if entity_id in self._order else entity_id

    def _place(self, entity_id: str) -> int:
        return self._order.get(entity_id, len(self._order))


@lru_cache(maxsize=4)
def _indexed(topology: ByIdentity[Topology]) -> Kinship:
    parents: dict[str, list[str]] = {}
    children: dict[str, list[str]] = {}
    for parent, child in topology.it.edges:
        parents.setdefault(child, []).append(parent)
        children.setdefault(parent, []).append(child)
    return Kinship(
        topology=topology.it,
        _parents={child: tuple(found) for child, found in parents.items()},
        _children={parent: tuple(found) for parent, found in children.items()},
        _order={entity.id: place for place, entity in enumerate(topology.it.entities)},
    )


def _reach(start: str, edges: dict[str, tuple[str, ...]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting.extend(edges.get(here, ()))
    return frozenset(found)


def root_of(finding: Finding, others: Sequence[Finding], kinship: Kinship, *, window_ns: int) -> str:
    """Return the entity that explains a finding, given what else was found.

    That is the entity itself, unless siblings show the same cause and began within the window: then what they share.
    """
    together = [
        other.entity_id
        for other in others
        if other.cause is finding.cause
        and abs(other.since_ns - finding.since_ns) <= window_ns
        and kinship.are_siblings(other.entity_id, finding.entity_id)
    ]
    return kinship.common_root([finding.entity_id, *together]) or finding.entity_id
