"""Columns of an instrument that are due in each block of its period, and the sources of their values."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.plant import BLOCK_MS
from simulator.sensors.columns import Columns
from simulator.sensors.windows import IndexArray
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """The columns that are due in one block, arrays ``(n_due,)``.

    `place` is where they stand among all columns, as cheaply as it can be said; `bounds` is where their windows end
    and begin in the running sums, ``(2, n_due)``; `scale` makes a value of a sum, or of a sample.
    """

    column: IndexArray
    place: IndexArray | slice
    source: IndexArray
    end_ms: IndexArray
    bounds: IndexArray
    keep: FloatArray
    scale: FloatArray
    offset: FloatArray
    noise: FloatArray
    quantum: FloatArray
    lowest: FloatArray
    highest: FloatArray
    is_exact: bool  # neither offset nor noise

    def reported(self, value: FloatArray) -> FloatArray:
        """Return values in steps and within the range that can be told."""
        reported: FloatArray = np.rint(value / self.quantum) * self.quantum
        return np.minimum(np.maximum(reported, self.lowest), self.highest)


def turns_of(columns: Columns) -> list[Turn | None]:
    """Return one turn for each block of the period, None where nothing is due."""
    due_in = (columns.phase_ms - 1) // BLOCK_MS
    turns: list[Turn | None] = []
    for block in range(columns.period_ms // BLOCK_MS):
        chosen = np.flatnonzero(due_in == block)
        turns.append(turn_of(columns, chosen, block) if len(chosen) else None)
    return turns


def turn_of(columns: Columns, chosen: IndexArray, block: int) -> Turn:
    """Return the turn of some columns, measured in a block of the period."""
    width = int(columns.source.max()) + 1
    end_ms = columns.phase_ms[chosen] - block * BLOCK_MS
    window_ms = columns.window_ms[chosen]
    parameters = ("source", "keep", "offset", "noise", "quantum", "lowest", "highest")
    own = {name: getattr(columns, name)[chosen] for name in parameters}
    last = (end_ms - 1) * width + own["source"]
    return Turn(
        **own,
        column=chosen,
        place=slice(None) if len(chosen) == len(columns.labels) else chosen,
        end_ms=end_ms,
        bounds=np.stack([last, last - window_ms * width]),
        scale=columns.gain[chosen] / np.maximum(window_ms, 1),
        is_exact=not (own["offset"].any() or own["noise"].any()),
    )
