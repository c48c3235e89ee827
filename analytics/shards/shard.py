"""Shards: the state of one detector for some of its entities, as a flat set of leaves, split and merged.

A state is a tree of frozen dataclasses. Its leaves are arrays whose first axis is the entity, single values (the time
of the last row, the open second), and notes: tuples of plain tuples or records taken from events. What follows from the
topology alone (`Siblings` and the like) is no leaf: it is computed again at the next row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

Single: TypeAlias = "bool | int | float | str | None"
Note: TypeAlias = Any
Leaf: TypeAlias = "npt.NDArray[Any] | Single | tuple[Note, ...]"
State = TypeVar("State")

_SINGLES = (bool, int, float, str, type(None))
# Fields that a detector fills anew: from the topology when it first needs them, or as a verdict each minute.
_DERIVED = frozenset({"kinship", "verdict"})


def leaves_of(state: object) -> dict[str, Leaf]:
    """Return the leaves by place in the tree, such as ``conditions.active``.

    Raises
    ------
    ValueError
        The state holds another type, such as a dict.
    """
    return dict(_walk(state, ""))


def with_leaves(template: State, leaves: Mapping[str, Leaf]) -> State:
    """Return the template's tree with these leaves; ValueError if the places differ."""
    wanted = leaves_of(template).keys()
    if wanted != leaves.keys():
        odd = ", ".join(sorted(wanted ^ leaves.keys())[:3])
        raise ValueError(f"state layout of another version: {odd}")
    made: State = _filled(template, leaves, "")
    return made


def notes_in_json(state: object) -> dict[str, Any]:
    """Return the notes of a state by place, as JSON types."""
    leaves = leaves_of(state)
    return {place: adapter.dump_python(leaves[place], mode="json") for place, adapter in _adapters(state).items()}


def notes_of_json(template: object, notes: Mapping[str, Any]) -> dict[str, Leaf]:
    """Return the notes that `notes_in_json` wrote; ValueError if they do not fit the template's types."""
    return {place: adapter.validate_python(notes[place]) for place, adapter in _adapters(template).items()}


def mentions(note: Note) -> frozenset[str]:
    """Return every string in a note, which includes the ids of its entities."""
    parts = note if isinstance(note, tuple) else (getattr(note, field.name) for field in fields(note))
    return frozenset(part for part in parts if isinstance(part, str))


def _walk(part: Any, place: str) -> Iterator[tuple[str, Leaf]]:
    if isinstance(part, (np.ndarray, *_SINGLES)):
        yield place, part
    elif is_dataclass(part):
        if _follows_from_topology(part):
            return
        for name in _own(part):
            yield from _walk(getattr(part, name), f"{place}.{name}" if place else name)
    elif isinstance(part, tuple) and _are_notes(part):
        yield place, part
    elif isinstance(part, tuple):
        for number, inner in enumerate(part):
            yield from _walk(inner, f"{place}.{number}")
    else:
        raise ValueError(f"{place}: {type(part).__name__} is not allowed in a detector state")


def _filled(part: Any, leaves: Mapping[str, Leaf], place: str) -> Any:
    if place in leaves:
        return leaves[place]
    if is_dataclass(part) and not isinstance(part, type):
        if _follows_from_topology(part):
            return part
        inner = {
            name: _filled(getattr(part, name), leaves, f"{place}.{name}" if place else name) for name in _own(part)
        }
        return replace(part, **inner)
    return tuple(_filled(one, leaves, f"{place}.{number}") for number, one in enumerate(part))


def _follows_from_topology(part: Any) -> bool:
    return any(field.name == "topology" for field in fields(part))


def _adapters(state: object) -> dict[str, TypeAdapter[Any]]:
    """Return the type adapter of the notes at each place, from the declared field types."""
    return {place: TypeAdapter(hint) for place, hint in _hints(state, "", None)}


def _own(part: Any) -> list[str]:
    return [field.name for field in fields(part) if field.name not in _DERIVED]


def _hints(part: Any, place: str, hint: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(part) and not _follows_from_topology(part):
        hints = get_type_hints(type(part))
        for name in _own(part):
            yield from _hints(getattr(part, name), f"{place}.{name}" if place else name, hints[name])
    elif isinstance(part, tuple) and _are_notes(part):
        yield place, hint
    elif isinstance(part, tuple):
        for number, inner in enumerate(part):
            yield from _hints(inner, f"{place}.{number}", None)


def _are_notes(part: tuple[Any, ...]) -> bool:
    return all(isinstance(one, tuple) or _is_record(one) for one in part)


def _is_record(part: Any) -> bool:
    return is_dataclass(part) and all(isinstance(getattr(part, field.name), _SINGLES) for field in fields(part))


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
