"""What hangs together: kinship in the topology, siblings as arrays, and the entity that explains several others.

The topology is known, so it is the graph: nothing is discovered blindly. Siblings that deviate together point to what
they share.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, MaskArray
from telemetry.records import Finding

GroupArray = npt.NDArray[np.intp]
_GPU_ID = f"{EntityKind.GPU}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinship:
    """Parents and children of every entity, indexed once; a look-up costs what it returns."""

    topology: Topology
    _parents: dict[str, tuple[str, ...]]
    _children: dict[str, tuple[str, ...]]
    _order: dict[str, int]

    @staticmethod
    def of(topology: Topology) -> "Kinship":
        """Index a topology."""
        parents: dict[str, list[str]] = {}
        children: dict[str, list[str]] = {}
        for parent, child in topology.edges:
            parents.setdefault(child, []).append(parent)
            children.setdefault(parent, []).append(child)
        return Kinship(
            topology=topology,
            _parents={child: tuple(found) for child, found in parents.items()},
            _children={parent: tuple(found) for parent, found in children.items()},
            _order={entity.id: place for place, entity in enumerate(topology.entities)},
        )

    def ancestors(self, entity_id: str) -> frozenset[str]:
        """Give everything above, the entity itself not included."""
        return _reach(entity_id, self._parents)

    def descendants(self, entity_id: str) -> frozenset[str]:
        """Give everything below, the entity itself not included."""
        return _reach(entity_id, self._children)

    def gpus_under(self, entity_id: str) -> tuple[str, ...]:
        """Give the GPUs that the entity feeds or holds, a GPU itself, in declared order."""
        at_or_below = self.descendants(entity_id) | {entity_id}
        return tuple(found for found in sorted(at_or_below, key=self._place) if found.startswith(_GPU_ID))

    def are_siblings(self, one_id: str, other_id: str) -> bool:
        """Say whether two entities hang on a parent that they share."""
        shared = set(self._parents.get(one_id, ())) & set(self._parents.get(other_id, ()))
        return one_id != other_id and bool(shared)

    def common_root(self, entity_ids: Iterable[str]) -> str | None:
        """Give the lowest single entity that has all of these at or below it, None where there is none.

        Two supplies that share one bus both feed all GPUs; neither explains them better, so their node does. Where
        nothing stands above such a pair, the one that was declared first is given.
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
        """Give the node that holds the entity, else the first of what stands highest above it, else itself."""
        above = sorted(self.ancestors(entity_id), key=self._place)
        for candidate in above:
            if self.topology.entity(candidate).kind is EntityKind.NODE:
                return candidate
        return next((candidate for candidate in above if candidate not in self._parents), entity_id)

    def knows(self, entity_id: str) -> bool:
        """Say whether the topology has this entity."""
        return entity_id in self._order

    def name(self, entity_id: str) -> str:
        """Give what people call an entity, its id where the topology does not know it."""
        return self.topology.entity(entity_id).name if entity_id in self._order else entity_id

    def _place(self, entity_id: str) -> int:
        return self._order.get(entity_id, len(self._order))


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
    """Give the entity that explains a finding, given what else was found.

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


def sibling_groups(entities: Sequence[Entity], topology: Topology) -> GroupArray:
    """Give a number for each entity, the same for those of one node; an entity without kin stands alone."""
    kinship = Kinship.of(topology)
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(kinship.top(entity.id), len(numbers)) for entity in entities], dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Siblings:
    """The groups of a table's entities, worked out again only when the topology is another one."""

    topology: Topology | None
    groups: GroupArray

    @staticmethod
    def unknown() -> "Siblings":
        """Give what is known before the first frame."""
        return Siblings(topology=None, groups=np.empty(0, dtype=np.intp))

    def under(self, topology: Topology, entities: Sequence[Entity]) -> "Siblings":
        """Give the groups under this topology."""
        if self.topology is topology:
            return self
        return Siblings(topology=topology, groups=sibling_groups(entities, topology))


def any_sibling(mask: MaskArray, groups: GroupArray) -> MaskArray:
    """Give for each entity whether the mask holds for any other entity of its group."""
    if not len(mask):
        return mask
    counts = np.bincount(groups, weights=mask)[groups] - mask
    found: MaskArray = counts > 0
    return found


def sibling_median(values: FloatArray, groups: GroupArray, *, min_siblings: int) -> FloatArray:
    """Give for each entity the median over the others of its group whose value is known.

    NaN where fewer than `min_siblings` are. One sort, no loop over entities.
    """
    size = len(values)
    known = ~np.isnan(values)
    order = np.lexsort((np.where(known, values, np.inf), ~known, groups))
    group_sizes = np.bincount(groups, minlength=1)
    starts = (np.cumsum(group_sizes) - group_sizes)[groups]
    known_counts = np.bincount(groups, weights=known, minlength=1).astype(np.intp)[groups]
    ranks = np.empty(size, dtype=np.intp)
    ranks[order] = np.arange(size)
    ranks -= starts
    others = known_counts - known
    enough = others >= max(min_siblings, 1)

    def at(place: GroupArray) -> FloatArray:
        # Leaving out the entity itself shifts everything from its own rank on by one.
        shifted = place + (known & (place >= ranks))
        picked: FloatArray = values[order[np.where(enough, starts + shifted, 0)]]
        return picked

    middle = (at((others - 1) // 2) + at(others // 2)) / 2
    return np.where(enough, middle, np.nan)
