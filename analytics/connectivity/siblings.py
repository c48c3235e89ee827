"""Siblings as arrays: who shares a node, and what the others of a group show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics.connectivity.kinship import Kinship
from telemetry.entities import Entity, Topology
from telemetry.frames import FloatArray, MaskArray

GroupArray = npt.NDArray[np.intp]


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
