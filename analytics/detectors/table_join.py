"""Several tables of one kind as one: each row holds the newest value of every table, so a detector sees all signals.

A table has one writer and a rate of its own (fast, slow, bus). Rows are joined by time: one joined row per row of any
table, the others' values held. What is stale is NaN already, the tables' writers see to that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from analytics.connectivity import GroupArray
from telemetry.entities import merged_entities
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray, joined_frames


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Position of one table's columns in the joined table; `picked` are the columns that it contributes.

    `rows` and `columns` are indices that select a block: slices where places follow one another, which cost a tenth.
    """

    table: str
    rows: GroupArray | slice
    columns: GroupArray | slice
    picked: GroupArray | slice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinState:
    """The joined table, and the newest values, shape ``(n_entities, n_signals)``; NaN before the first."""

    spec: TableSpec
    placements: tuple[Placement, ...]
    values: FloatArray
    last_ns: int


def start_join(specs: Sequence[TableSpec]) -> JoinState:
    """Return the join of tables of one kind. A signal or a tag that two tables have is taken from the first.

    Raises
    ------
    ValueError
        There is no table, or they are of several kinds.
    """
    kinds = {spec.kind for spec in specs}
    if len(kinds) != 1:
        raise ValueError(f"a join needs tables of one kind, got {sorted(kinds)}")
    every = [entity for spec in specs for entity in spec.entities]
    by_id = merged_entities(reversed(every))
    places = {key: place for place, key in enumerate(dict.fromkeys(entity.id for entity in every))}
    columns = tuple(dict.fromkeys(name for spec in specs for name in spec.signals))
    joined = TableSpec(
        name=f"{specs[0].kind}_joined",
        kind=specs[0].kind,
        entities=tuple(by_id[key] for key in places),
        signals=columns,
    )
    taken: set[tuple[str, frozenset[str]]] = set()
    placements = []
    for spec in specs:
        own = frozenset(entity.id for entity in spec.entities)
        free = [name for name in spec.signals if not any(name == other and own & ids for other, ids in taken)]
        taken |= {(name, own) for name in free}
        rows = _index([places[entity.id] for entity in spec.entities])
        own_columns = _index([columns.index(name) for name in free])
        if not isinstance(rows, slice) and not isinstance(own_columns, slice):
            rows = rows[:, np.newaxis]
        picked = _index([spec.signals.index(name) for name in free])
        placements.append(Placement(table=spec.name, rows=rows, columns=own_columns, picked=picked))
    return JoinState(spec=joined, placements=tuple(placements), values=np.full(joined.shape, np.nan), last_ns=0)


def join(state: JoinState, frames: Sequence[Frame]) -> tuple[JoinState, Frame]:
    """Join the new rows of any of the tables; frames of other tables are left aside.

    A row that is older than what was joined before becomes known now, and takes the time joined last.
    """
    parts = [
        (placement, frame, np.maximum(frame.time_ns, state.last_ns))
        for placement in state.placements
        for frame in _merged([frame for frame in frames if frame.spec.name == placement.table and len(frame)])
    ]
    if not parts:
        return state, _no_rows(state.spec)
    if len(parts) == 1 and _is_whole(parts[0][1], state):
        frame = replace(parts[0][1], spec=state.spec)
        return replace(state, values=frame.values[-1].copy(), last_ns=int(frame.time_ns[-1])), frame
    times_ns = _in_order([times for _, _, times in parts])
    shape = (len(times_ns), *state.spec.shape)
    values = np.broadcast_to(state.values, shape).copy()
    fresh = np.zeros(shape, dtype=np.bool_)
    for placement, frame, own_ns in parts:
        first = int(times_ns.searchsorted(own_ns[0]))
        cells = slice(first, None), placement.rows, placement.columns
        held = own_ns.searchsorted(times_ns[first:], side="right") - 1
        new = (own_ns[held] == times_ns[first:])[:, np.newaxis, np.newaxis]
        values[cells] = frame.values[held][:, :, placement.picked]
        fresh[cells] = frame.fresh[held][:, :, placement.picked] & new
    joined = Frame(spec=state.spec, time_ns=times_ns, values=values, fresh=fresh)
    return replace(state, values=values[-1].copy(), last_ns=int(times_ns[-1])), joined


def _index(places: list[int]) -> GroupArray | slice:
    """Return the index of these places: a slice where each follows the one before."""
    first = places[0] if places else 0
    if places == list(range(first, first + len(places))):
        return slice(first, first + len(places))
    return np.array(places, dtype=np.intp)


def _merged(frames: list[Frame]) -> list[Frame]:
    """Return the frames of one table as one where their times ascend: each part of a join costs as much."""
    if len(frames) < 2 or any(after.time_ns[0] < before.time_ns[-1] for before, after in pairwise(frames)):
        return frames
    return [joined_frames(frames)]


def _in_order(times_ns: list[TimeArray]) -> TimeArray:
    """Return all times once, ascending."""
    if len(times_ns) == 1 and (times_ns[0][1:] > times_ns[0][:-1]).all():
        return times_ns[0]
    return np.unique(np.concatenate(times_ns))


def _no_rows(spec: TableSpec) -> Frame:
    shape = (0, *spec.shape)
    times_ns = np.empty(0, dtype=np.int64)
    return Frame(spec=spec, time_ns=times_ns, values=np.empty(shape), fresh=np.empty(shape, dtype=np.bool_))


def _is_whole(frame: Frame, state: JoinState) -> bool:
    """Return True if a frame is the joined table already: the only one of its kind, its rows in order and new."""
    columns = (frame.spec.entities, frame.spec.signals) == (state.spec.entities, state.spec.signals)
    times_ns = frame.time_ns
    ascending = times_ns[0] > state.last_ns and (times_ns[1:] > times_ns[:-1]).all()
    return columns and len(state.placements) == 1 and bool(ascending)
