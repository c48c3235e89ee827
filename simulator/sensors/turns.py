"""Which columns of an instrument are due in which block of its period, and what their values are made of."""

from dataclasses import dataclass

import numpy as np

from simulator.sensors.columns import Columns
from simulator.sensors.windows import IndexArray
from telemetry.frames import FloatArray, MaskArray

STEP_MS = 10  # how far the plant moves at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """The columns that are due in one block, arrays ``(n_due,)``.

    `place` is where they stand among all columns, as cheaply as it can be said; `last` and `span` are where and how
    long their windows are in the running sums; `scale` makes a value of a sum, or of a sample.
    """

    column: IndexArray
    source: IndexArray
    end_ms: IndexArray
    last: IndexArray
    span: IndexArray
    keep: FloatArray
    scale: FloatArray
    gain: FloatArray
    offset: FloatArray
    noise: FloatArray
    quantum: FloatArray
    lowest: FloatArray
    highest: FloatArray
    place: IndexArray | slice
    is_exact: bool  # neither offset nor noise

    def only(self, wanted: MaskArray) -> "Turn":
        """Give the turn of fewer columns."""
        kept = {name: getattr(self, name)[wanted] for name in self.__slots__ if name not in ("place", "is_exact")}
        return Turn(**kept, place=kept["column"], is_exact=self.is_exact)

    def told(self, value: FloatArray) -> FloatArray:
        """Give values in steps and within the range that can be told."""
        told: FloatArray = np.rint(value / self.quantum) * self.quantum
        return np.minimum(np.maximum(told, self.lowest), self.highest)


def turns_of(columns: Columns) -> list[Turn | None]:
    """Give one turn for each block of the period, None where nothing is due."""
    due_in = (columns.phase_ms - 1) // STEP_MS
    turns: list[Turn | None] = []
    for block in range(columns.period_ms // STEP_MS):
        chosen = np.flatnonzero(due_in == block)
        turns.append(turn_of(columns, chosen, block) if len(chosen) else None)
    return turns


def turn_of(columns: Columns, chosen: IndexArray, block: int) -> Turn:
    """Give the turn of some columns, measured in a block of the period."""
    width = int(columns.source.max()) + 1
    end_ms = columns.phase_ms[chosen] - block * STEP_MS
    window_ms = columns.window_ms[chosen]
    parameters = ("source", "keep", "gain", "offset", "noise", "quantum", "lowest", "highest")
    own = {name: getattr(columns, name)[chosen] for name in parameters}
    return Turn(
        **own,
        column=chosen,
        end_ms=end_ms,
        last=(end_ms - 1) * width + own["source"],
        span=window_ms * width,
        scale=own["gain"] / np.maximum(window_ms, 1),
        place=slice(None) if len(chosen) == len(columns.labels) else chosen,
        is_exact=not (own["offset"].any() or own["noise"].any()),
    )
