"""Columns joined from tables of other kinds: the inlet temperature of a GPU's node, the power of all GPUs on a supply.

A detector declares them; the panel adds them to its frame as columns, each row with the values known at its time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from analytics.connectivity import GroupArray, Kinship
from analytics.connectivity.kinship import ByIdentity
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec


class Relation(StrEnum):
    """Relation to the other entities, and how several values are aggregated."""

    ANCESTOR = "ancestor"
    SUM_BELOW = "sum below"
    MAX_BELOW = "max below"
    MEAN_BELOW = "mean below"
    SUM_BESIDE = "sum beside"
    MAX_BESIDE = "max beside"


_BESIDE = (Relation.SUM_BESIDE, Relation.MAX_BESIDE)
_MAXIMA = (Relation.MAX_BELOW, Relation.MAX_BESIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """Joined column: a signal of another kind of entity.

    `Relation.ANCESTOR` takes the value of the entity of that kind above, the first of its table if there are several.
    The others aggregate over the entities below that have a value, NaN if none has; `Relation.SUM_BESIDE` and
    `Relation.MAX_BESIDE` over those of the same node, such as its jobs. `column` renames the column where the signal's
    own name is in use.
    `rails_v` are the nominal voltages of the rails that count; all where it is empty.
    """

    kind: EntityKind
    signal: str
    how: Relation = Relation.ANCESTOR
    column: str = ""
    rails_v: frozenset[float] = frozenset()

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column or self.signal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinPairs:
    """Pairs of positions under one topology: entity ``own[k]`` takes the value of ``other[k]``.

    Pairs are sorted by `own`; `starts` are the first pair of each entity that has any.
    """

    topology: Topology | None
    own: GroupArray
    other: GroupArray
    starts: GroupArray

    @staticmethod
    def unknown() -> "JoinPairs":
        """Return the state before the first frame."""
        empty = np.empty(0, dtype=np.intp)
        return JoinPairs(topology=None, own=empty, other=empty, starts=empty)

    def under(self, topology: Topology, one: "JoinedColumn", own: TableSpec, others: TableSpec) -> "JoinPairs":
        """Return the pairs under this topology."""
        if self.topology is topology:
            return self
        # Sums, maxima and means share their pairs, and so the cache.
        how = Relation.ANCESTOR if one.how is Relation.ANCESTOR else Relation.SUM_BELOW
        how = Relation.SUM_BESIDE if one.how in _BESIDE else how
        left, right, starts = _pairs(
            ByIdentity(topology), how, ByIdentity(own.entities), ByIdentity(others.entities), one.rails_v
        )
        return JoinPairs(topology=topology, own=left, other=right, starts=starts)


# The column of a signal that no table has, and the mask of a column without new values.
_ABSENT: FloatArray = np.full((1, 1), np.nan)
_NOT_NEW: MaskArray = np.zeros((1, 1), dtype=np.bool_)


@lru_cache(maxsize=32)
def _pairs(
    topology: ByIdentity[Topology],
    how: Relation,
    own: ByIdentity[tuple[Entity, ...]],
    others: ByIdentity[tuple[Entity, ...]],
    rails_v: frozenset[float],
) -> tuple[GroupArray, GroupArray, GroupArray]:
    """Return the pairs sorted by the first position, and the first pair of each of those."""
    kinship = Kinship.of(topology.it)
    places = {entity.id: place for place, entity in enumerate(others.it) if not rails_v or entity.nominal_v in rails_v}
    pairs: list[tuple[int, int]] = []
    for index, entity in enumerate(own.it):
        above = how is Relation.ANCESTOR
        below = kinship.top(entity.id) if how is Relation.SUM_BESIDE else entity.id
        reach = kinship.ancestors(entity.id) if above else kinship.descendants(below)
        theirs = sorted(places[other] for other in reach if other in places)
        pairs += [(index, place) for place in (theirs[:1] if above else theirs)]
    left, right = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    return left, right, np.flatnonzero(np.diff(left, prepend=-1))


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

    def with_values(self, values: FloatArray) -> "ColumnJoin":
        """Return the state with newer values; quicker than `replace`, as every step holds some."""
        return ColumnJoin(terms=self.terms, source_spec=self.source_spec, values=values, reach=self.reach)

    def extend(self, frame: Frame, new: Frame | None, topology: Topology) -> tuple["ColumnJoin", FloatArray, MaskArray]:
        """Return the column for the rows of a frame, with the value known at each time, and a mask of new values.

        Both broadcast to ``(n_rows, n_entities)``.
        """
        if self.source_spec is None:
            return self, _ABSENT, _NOT_NEW
        reach = self.reach.under(topology, self.terms, frame.spec, self.source_spec)
        before, n_own = self.values[np.newaxis], frame.values.shape[1]
        carried = self if reach is self.reach else replace(self, reach=reach)
        if new is None or not len(new):
            return carried, _gathered(before, reach, self.terms.how, n_own), _NOT_NEW
        rows = np.concatenate([before, new.signal(self.terms.signal)])
        known = new.time_ns.searchsorted(frame.time_ns, side="right")
        is_new = np.concatenate([known[:1] > 0, known[1:] > known[:-1]])
        column = _gathered(rows, reach, self.terms.how, n_own)[known]
        return replace(carried, values=rows[-1]), column, is_new[:, np.newaxis]


def widened(spec: TableSpec, joined_columns: Sequence[JoinedColumn]) -> TableSpec:
    """Return the table with the joined columns after its own."""
    return replace(spec, signals=(*spec.signals, *(one.name for one in joined_columns)))


def widen(
    frame: Frame, column_joins: Sequence[ColumnJoin], new: Mapping[EntityKind, Frame], topology: Topology
) -> tuple[tuple[ColumnJoin, ...], Frame]:
    """Return the frame with the joined columns; `new` are the rows of other kinds that came with it."""
    after: list[ColumnJoin] = []
    n_rows, n_own, n_signals = frame.values.shape
    shape = n_rows, n_own, n_signals + len(column_joins)
    values, fresh = np.empty(shape), np.empty(shape, dtype=np.bool_)
    values[:, :, :n_signals], fresh[:, :, :n_signals] = frame.values, frame.fresh
    for place, join in enumerate(column_joins, n_signals):
        carried, values[:, :, place], fresh[:, :, place] = join.extend(frame, new.get(join.terms.kind), topology)
        after.append(carried)
    spec = widened(frame.spec, [join.terms for join in column_joins])
    return tuple(after), Frame(spec=spec, time_ns=frame.time_ns, values=values, fresh=fresh)


def held(column_joins: Sequence[ColumnJoin], new: Mapping[EntityKind, Frame]) -> tuple[ColumnJoin, ...]:
    """Return the joins with the newest values, for a detector without rows of its own."""
    return tuple(
        join.with_values(new[join.terms.kind].signal(join.terms.signal)[-1])
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
    starts = reach.starts
    there = ~np.isnan(given)
    counts = np.add.reduceat(there, starts, axis=1, dtype=np.intp)
    if how in _MAXIMA:
        made = np.maximum.reduceat(np.where(there, given, -np.inf), starts, axis=1)
    else:
        made = np.add.reduceat(np.where(there, given, 0.0), starts, axis=1)
        if how is Relation.MEAN_BELOW:
            made = made / np.maximum(counts, 1)
    found[:, reach.own[starts]] = np.where(counts > 0, made, np.nan)
    return found
