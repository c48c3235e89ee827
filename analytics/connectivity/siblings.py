"""Siblings as arrays: who shares a node, and what the others of a group show."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analytics.connectivity.kinship import ByIdentity, Kinship
from telemetry.entities import Entity, Topology
from telemetry.frames import FloatArray, MaskArray

GroupArray = npt.NDArray[np.intp]

# Fewer siblings leave no majority: of two that differ, either may be the odd one.
MIN_SIBLINGS = 2


def sibling_groups(entities: Sequence[Entity], topology: Topology) -> GroupArray:
    """Return a number for each entity, the same for those of one node; an entity without kin has its own."""
    return _groups(ByIdentity(topology), ByIdentity(entities))


@lru_cache(maxsize=16)
def _groups(topology: ByIdentity[Topology], entities: ByIdentity[Sequence[Entity]]) -> GroupArray:
    kinship = Kinship.of(topology.it)
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(kinship.top(entity.id), len(numbers)) for entity in entities.it]
    groups = np.array(found, dtype=np.intp)
    groups.flags.writeable = False  # several have it
    return groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Siblings:
    """The groups of a table's entities, worked out again only when the topology is another one."""

    topology: Topology | None
    groups: GroupArray

    def under(self, topology: Topology, entities: Sequence[Entity]) -> "Siblings":
        """Return the groups under this topology."""
        if self.topology is topology:
            return self
        return Siblings(topology=topology, groups=sibling_groups(entities, topology))


def any_sibling(mask: MaskArray, groups: GroupArray) -> MaskArray:
    """Return for each entity whether the mask holds for any other entity of its group."""
    if not len(mask):
        return mask
    counts = np.bincount(groups, weights=mask)[groups] - mask
    found: MaskArray = counts > 0
    return found


def sums_of_others(rows: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each value of rows ``(n_rows, n_entities)`` the sum over the others of its group, in each row."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    place = np.empty(len(groups), dtype=np.intp)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(groups)))
    sums: FloatArray = np.add.reduceat(rows[:, order], starts, axis=1)
    return sums[:, place] - rows


def sibling_median(values: FloatArray, groups: GroupArray, *, min_siblings: int) -> FloatArray:
    """Return for each entity the median over the others of its group whose value is known.

    NaN where fewer than `min_siblings` are. Groups of one size are sorted side by side: a loop over sizes, not groups.
    """
    found = np.full(len(values), np.nan)
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=1)[groups[order]]
    for size in np.flatnonzero(np.bincount(sizes, minlength=1)).tolist():
        if size > min_siblings:
            members = order[sizes == size].reshape(-1, size)
            own = values[members]
            whole = ~np.isnan(own).any(axis=1)
            if size > 1:
                found[members[whole]] = _median_where_all_known(own[whole])
            if not whole.all():
                found[members[~whole]] = _median_of_others(own[~whole], max(min_siblings, 1))
    return found


def _median_where_all_known(values: FloatArray) -> FloatArray:
    """Return for each of ``(n_groups, size)`` the median of the others in its row."""
    ranked, others = np.sort(values, axis=1), values.shape[1] - 1

    def at(place: int) -> FloatArray:
        # Leaving out the entity itself shifts everything from its own rank on by one.
        here = ranked[:, place : place + 1]
        return np.where(values <= here, ranked[:, place + 1 : place + 2], here)

    low = at((others - 1) // 2)
    return low if others % 2 else (low + at(others // 2)) / 2


def _median_of_others(values: FloatArray, least: int) -> FloatArray:
    """Return for each of ``(n_groups, size)`` the median of the others known in its row, NaN below `least`."""
    known = ~np.isnan(values)
    others = known.sum(axis=1, keepdims=True) - known
    # NaN sorts last; one more keeps the place after the last one in the row.
    ranked = np.concatenate([np.sort(values, axis=1), np.full((len(values), 1), np.nan)], axis=1)

    def at(place: GroupArray) -> FloatArray:
        here = np.take_along_axis(ranked, place, axis=1)
        return np.where(known & (values <= here), np.take_along_axis(ranked, place + 1, axis=1), here)

    middle = (at(np.maximum(others - 1, 0) // 2) + at(others // 2)) / 2
    return np.where(others >= least, middle, np.nan)
