"""Columns of other kinds beside a kind's own: the inlet temperature of a GPU's node, the power of all GPUs on a supply.

A detector says what it borrows; the panel puts it into the detector's frame as columns like any other, each row with
what was known at its time.
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


class How(StrEnum):
    """Whose value is taken, and what is made of several."""

    ANCESTOR = "ancestor"
    SUM_BELOW = "sum below"
    MAX_BELOW = "max below"
    MEAN_BELOW = "mean below"
    SUM_BESIDE = "sum beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """One column: a signal of another kind.

    With `How.ANCESTOR` the value of the entity of that kind above, the first of its table where there are several;
    with the others a sum, maximum or mean over those below that have a value, NaN where none has; `How.SUM_BESIDE` sums
    over those of the same node, such as its jobs. `column` names the column where the signal's own name is taken.
    """

    kind: EntityKind
    signal: str
    how: How = How.ANCESTOR
    column: str = ""

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column or self.signal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """Who gets whose value: pairs of places, ``own[k]`` from ``other[k]``, under one topology."""

    topology: Topology | None
    own: GroupArray
    other: GroupArray

    @staticmethod
    def unknown() -> "Reach":
        """Return what is known before the first frame."""
        nobody = np.empty(0, dtype=np.intp)
        return Reach(topology=None, own=nobody, other=nobody)

    def under(self, topology: Topology, one: "Borrowed", own: TableSpec, others: TableSpec) -> "Reach":
        """Return the pairs under this topology."""
        if self.topology is topology:
            return self
        # A sum reaches as far as a maximum does: who asks for one has often asked for another.
        how = one.how if one.how in (How.ANCESTOR, How.SUM_BESIDE) else How.SUM_BELOW
        left, right = _pairs(Same(topology), how, Same(own.entities), Same(others.entities))
        return Reach(topology=topology, own=left, other=right)


@lru_cache(maxsize=32)
def _pairs(
    topology: Same[Topology], how: How, own: Same[tuple[Entity, ...]], others: Same[tuple[Entity, ...]]
) -> tuple[GroupArray, GroupArray]:
    """Return the pairs in ascending order of the first."""
    kinship = Kinship.of(topology.it)
    places = {entity.id: place for place, entity in enumerate(others.it)}
    pairs: list[tuple[int, int]] = []
    for index, entity in enumerate(own.it):
        above = how is How.ANCESTOR
        below = kinship.top(entity.id) if how is How.SUM_BESIDE else entity.id
        reach = kinship.ancestors(entity.id) if above else kinship.descendants(below)
        theirs = sorted(places[other] for other in reach if other in places)
        pairs += [(index, place) for place in (theirs[:1] if above else theirs)]
    left, right = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    return left, right


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loan:
    """One borrowed column and what is carried for it: who gets whose, and the lender's newest values."""

    terms: Borrowed
    lender: TableSpec | None
    values: FloatArray
    reach: Reach

    @staticmethod
    def of(terms: Borrowed, lender: TableSpec | None) -> "Loan":
        """Return state before the first row; `lender` is the joined table of that kind, None where there is none."""
        knows = lender is not None and terms.signal in lender.signals
        values = np.full(len(lender.entities), np.nan) if lender is not None and knows else np.empty(0)
        return Loan(terms=terms, lender=lender if knows else None, values=values, reach=Reach.unknown())

    def pay(self, frame: Frame, new: Frame | None, topology: Topology) -> tuple["Loan", FloatArray, MaskArray]:
        """Return the column for the rows of a frame, each with what was known at its time, and where it is new."""
        shape = frame.values.shape[:2]
        if self.lender is None:
            return self, np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_)
        reach = self.reach.under(topology, self.terms, frame.spec, self.lender)
        rows, known = self.values[np.newaxis], np.zeros(len(frame), dtype=np.intp)
        if new is not None and len(new):
            rows = np.concatenate([rows, new.signal(self.terms.signal)])
            known = np.searchsorted(new.time_ns, frame.time_ns, side="right")
        column = _gathered(rows, reach, self.terms.how, shape[1])[known]
        is_new = np.diff(known, prepend=0) > 0
        return replace(self, values=rows[-1], reach=reach), column, np.broadcast_to(is_new[:, np.newaxis], shape)


def widened(spec: TableSpec, borrowed: Sequence[Borrowed]) -> TableSpec:
    """Return the table with the borrowed columns behind its own."""
    return replace(spec, signals=(*spec.signals, *(one.name for one in borrowed)))


def widen(
    frame: Frame, loans: Sequence[Loan], new: Mapping[EntityKind, Frame], topology: Topology
) -> tuple[tuple[Loan, ...], Frame]:
    """Return the frame with the borrowed columns; `new` are the rows of other kinds that came with it."""
    after: list[Loan] = []
    values, fresh = [frame.values], [frame.fresh]
    for loan in loans:
        carried, column, is_new = loan.pay(frame, new.get(loan.terms.kind), topology)
        after.append(carried)
        values.append(column[:, :, np.newaxis])
        fresh.append(is_new[:, :, np.newaxis])
    wide = Frame(
        spec=widened(frame.spec, [loan.terms for loan in loans]),
        time_ns=frame.time_ns,
        values=np.concatenate(values, axis=2),
        fresh=np.concatenate(fresh, axis=2),
    )
    return tuple(after), wide


def held(loans: Sequence[Loan], new: Mapping[EntityKind, Frame]) -> tuple[Loan, ...]:
    """Take in the lenders' rows where the borrower has none of its own."""
    return tuple(
        replace(loan, values=new[loan.terms.kind].signal(loan.terms.signal)[-1])
        if loan.lender is not None and loan.terms.kind in new
        else loan
        for loan in loans
    )


def _gathered(rows: FloatArray, reach: Reach, how: How, n_own: int) -> FloatArray:
    """Return ``(n_rows, n_own)`` of what each gets from ``(n_rows, n_others)``."""
    given = rows[:, reach.other]
    found = np.full((len(rows), n_own), np.nan)
    if how is How.ANCESTOR:
        found[:, reach.own] = given
        return found
    if not reach.own.size:
        return found
    # The pairs stand in the order of who gets: each has one run of them.
    starts = np.flatnonzero(np.diff(reach.own, prepend=-1))
    there = ~np.isnan(given)
    counts = np.add.reduceat(there, starts, axis=1, dtype=np.intp)
    if how is How.MAX_BELOW:
        made = np.maximum.reduceat(np.where(there, given, -np.inf), starts, axis=1)
    else:
        made = np.add.reduceat(np.where(there, given, 0.0), starts, axis=1)
        if how is How.MEAN_BELOW:
            made = made / np.maximum(counts, 1)
    found[:, reach.own[starts]] = np.where(counts > 0, made, np.nan)
    return found
