"""Shards: the state of one detector for some of its entities, split and merged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.shards.tree import Leaf, leaves_of, mentions, with_leaves

# Single values that summarise all entities: `busy` is true if any entity is changing, `whole` if none lacks a signal.
# Every other single value is the time of the last row.
_ANY = frozenset({"busy"})
_ALL = frozenset({"whole"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shard:
    """State of a detector, and the entity ids of its rows."""

    entities: tuple[str, ...]
    state: Any


def arranged(fresh: Shard, parts: Sequence[Shard]) -> Shard:
    """Return a state for the entities of `fresh`, each with its row of the first part that has it, else its fresh row.

    `fresh` is the start state for these entities. The same function cuts a shard out of a whole, merges shards, and
    continues when entities come or go. Without parts it returns `fresh`.

    Raises
    ------
    ValueError
        Two parts are at different rows, or one is of another detector.
    """
    if not parts:
        return fresh
    homes = _homes(fresh.entities, parts)
    every = [leaves_of(part.state) for part in parts]
    own = leaves_of(fresh.state)
    for leaves in every:
        if leaves.keys() != own.keys():
            raise ValueError(f"shards with another layout: {', '.join(sorted(leaves.keys() ^ own.keys())[:3])}")
    some_new = bool((homes[0] < 0).any())
    together: dict[str, Leaf] = {
        place: _together(place, start, [leaves[place] for leaves in every], homes=homes, parts=parts, new=some_new)
        for place, start in own.items()
    }
    return Shard(entities=fresh.entities, state=with_leaves(fresh.state, together))


Homes = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


def _homes(entities: Sequence[str], parts: Sequence[Shard]) -> Homes:
    """Return for each entity the number of its part, -1 where it is new, and its row there."""
    found: dict[str, tuple[int, int]] = {}
    for number, part in enumerate(parts):
        for row, entity_id in enumerate(part.entities):
            found.setdefault(entity_id, (number, row))
    pairs = np.array([found.get(entity_id, (-1, 0)) for entity_id in entities], dtype=np.intp).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _together(
    place: str, start: Leaf, given: Sequence[Leaf], *, homes: Homes, parts: Sequence[Shard], new: bool
) -> Leaf:
    if isinstance(start, np.ndarray):
        return _rows(place, start, given, homes=homes)
    if isinstance(start, tuple):
        ours = {entity_id for part in parts for entity_id in part.entities}
        wanted = {entity_id for number in range(len(parts)) for entity_id in _kept(number, homes, parts)}
        # A note about no entity of the table, such as their node, belongs to all shards.
        notes = [note for one in given if isinstance(one, tuple) for note in one]
        return tuple(dict.fromkeys(note for note in notes if not (about := mentions(note) & ours) or about & wanted))
    name = place.rpartition(".")[2]
    if name in _ANY:
        return any(given)
    if name in _ALL:
        return all(given) and not new
    if any(one != given[0] for one in given):
        raise ValueError(f"{place}: shards are at different rows: {', '.join(map(str, dict.fromkeys(given)))}")
    return given[0]


def _rows(place: str, start: npt.NDArray[Any], given: Sequence[Leaf], *, homes: Homes) -> npt.NDArray[Any]:
    home, row = homes
    made = np.array(start)
    for number, one in enumerate(given):
        here = home == number
        if not isinstance(one, np.ndarray) or one.shape[1:] != made.shape[1:] or one.dtype != made.dtype:
            raise ValueError(f"{place}: shard with another layout")
        if here.any():
            made[here] = one[row[here]]
    return made


def _kept(number: int, homes: Homes, parts: Sequence[Shard]) -> list[str]:
    home, row = homes
    return [parts[number].entities[place] for place in row[home == number].tolist()]
