"""Columns joined from tables of other kinds: the inlet temperature of a GPU's node, the power of all GPUs on a supply.

A detector declares them; the panel adds them to its frame as columns, each row with the values known at its time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from analytics.connectivity import GroupArray, Kinship
from analytics.connectivity.topology_cache import Same
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec


class Relation(StrEnum):
    """Relation to the other entities, and how several values are aggregated."""

    ANCESTOR = "ancestor"
    SUM_BELOW = "sum below"
    MAX_BELOW = "max below"
    MEAN_BELOW = "mean below"
    SUM_BESIDE = "sum beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """One joined column: a signal of another kind.

    `Relation.ANCESTOR` takes the value of the entity of that kind above, the first of its table if there are several.
    The others aggregate over the entities below that have a value, NaN if none has; `Relation.SUM_BESIDE` sums over
    those of the same node, such as its jobs. `column` renames the column where the signal's own name is in use.
    """

    kind: EntityKind
    signal: str
    how: Relation = Relation.ANCESTOR
    column: str = ""

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column or self.signal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinPairs:
    """Pairs of positions under one topology: entity ``own[k]`` takes the value of ``other[k]``."""

    topology: Topology | None
    own: GroupArray
    other: GroupArray

    @staticmethod
    def unknown() -> "JoinPairs":
        """Return the state before the first frame."""
        empty = np.empty(0, dtype=np.intp)
        return JoinPairs(topology=None, own=empty, other=empty)

    def under(self, topology: Topology, one: "JoinedColumn", own: TableSpec, others: TableSpec) -> "JoinPairs":
        """Return the pairs under this topology."""
        if self.topology is topology:
            return self
        # Sums, maxima and means share their pairs, and so the cache.
        how = one.how if one.how in (Relation.ANCESTOR, Relation.SUM_BESIDE) else Relation.SUM_BELOW
        left, right = _pairs(Same(topology), how, Same(own.entities), Same(others.entities))
        return JoinPairs(topology=topology, own=left, other=right)


@lru_cache(maxsize=32)
def _pairs(
    topology: Same[Topology], how: Relation, own: Same[tuple[Entity, ...]], others: Same[tuple[Entity, ...]]
) -> tuple[GroupArray, GroupArray]:
    """Return the pairs sorted by the first position."""
    kinship = Kinship.of(topology.it)
    places = {entity.id: place for place, entity in enumerate(others.it)}
    pairs: list[tuple[int, int]] = []
    for index, entity in enumerate(own.it):
        above = how is Relation.ANCESTOR
        below = kinship.top(entity.id) if how is Relation.SUM_BESIDE else entity.id
        reach = kinship.ancestors(entity.id) if above else kinship.descendants(below)
        theirs = sorted(places[other] for other in reach if other in places)
        pairs += [(index, place) for place in (theirs[:1] if above else theirs)]
    left, right = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    return left, right


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnJoin:
    """State of one joined column: its pairs, and the newest values of the other table."""

    terms: JoinedColumn
    source_spec: TableSpec | None
    values: FloatArray
    reach: JoinPairs

    @staticmethod
    def of(terms: JoinedColumn, source_spec: TableSpec | None) -> "ColumnJoin":
        """Return the state before the first row; `source_spec` is the table of that kind, None if there is none."""
        knows = source_spec is not None and terms.signal in source_spec.signals
        values = np.full(len(source_spec.entities), np.nan) if source_spec is not None and knows else np.empty(0)
        return ColumnJoin(
            terms=terms, source_spec=source_spec if knows else None, values=values, reach=JoinPairs.unknown()
        )

    def extend(self, frame: Frame, new: Frame | None, topology: Topology) -> tuple["ColumnJoin", FloatArray, MaskArray]:
        """Return the column for the rows of a frame, with the value known at each time, and a mask of new values."""
        shape = frame.values.shape[:2]
        if self.source_spec is None:
            return self, np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_)
        reach = self.reach.under(topology, self.terms, frame.spec, self.source_spec)
        rows, known = self.values[np.newaxis], np.zeros(len(frame), dtype=np.intp)
        if new is not None and len(new):
            rows = np.concatenate([rows, new.signal(self.terms.signal)])
            known = np.searchsorted(new.time_ns, frame.time_ns, side="right")
        column = _gathered(rows, reach, self.terms.how, shape[1])[known]
        is_new = np.diff(known, prepend=0) > 0
        return replace(self, values=rows[-1], reach=reach), column, np.broadcast_to(is_new[:, np.newaxis], shape)


def widened(spec: TableSpec, joined_columns: Sequence[JoinedColumn]) -> TableSpec:
    """Return the table with the joined columns after its own."""
    return replace(spec, signals=(*spec.signals, *(one.name for one in joined_columns)))


def widen(
    frame: Frame, column_joins: Sequence[ColumnJoin], new: Mapping[EntityKind, Frame], topology: Topology
) -> tuple[tuple[ColumnJoin, ...], Frame]:
    """Return the frame with the joined columns; `new` are the rows of other kinds that came with it."""
    after: list[ColumnJoin] = []
    values, fresh = [frame.values], [frame.fresh]
    for join in column_joins:
        carried, column, is_new = join.extend(frame, new.get(join.terms.kind), topology)
        after.append(carried)
        values.append(column[:, :, np.newaxis])
        fresh.append(is_new[:, :, np.newaxis])
    wide = Frame(
        spec=widened(frame.spec, [join.terms for join in column_joins]),
        time_ns=frame.time_ns,
        values=np.concatenate(values, axis=2),
        fresh=np.concatenate(fresh, axis=2),
    )
    return tuple(after), wide


def held(column_joins: Sequence[ColumnJoin], new: Mapping[EntityKind, Frame]) -> tuple[ColumnJoin, ...]:
    """Return the joins with the newest values, for a detector without rows of its own."""
    return tuple(
        replace(join, values=new[join.terms.kind].signal(join.terms.signal)[-1])
        if join.source_spec is not None and join.terms.kind in new
        else join
        for join in column_joins
    )


def _gathered(rows: FloatArray, reach: JoinPairs, how: Relation, n_own: int) -> FloatArray:
    """Return the values ``(n_rows, n_own)`` aggregated from ``(n_rows, n_others)``."""
    given = rows[:, reach.other]
    found = np.full((len(rows), n_own), np.nan)
    if how is Relation.ANCESTOR:
        found[:, reach.own] = given
        return found
    if not reach.own.size:
        return found
    # Pairs are sorted by the receiving entity: each has one run of them.
    starts = np.flatnonzero(np.diff(reach.own, prepend=-1))
    there = ~np.isnan(given)
    counts = np.add.reduceat(there, starts, axis=1, dtype=np.intp)
    if how is Relation.MAX_BELOW:
        made = np.maximum.reduceat(np.where(there, given, -np.inf), starts, axis=1)
    else:
        made = np.add.reduceat(np.where(there, given, 0.0), starts, axis=1)
        if how is Relation.MEAN_BELOW:
            made = made / np.maximum(counts, 1)
    found[:, reach.own[starts]] = np.where(counts > 0, made, np.nan)
    return found
