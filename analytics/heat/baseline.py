"""Normal values of an entity's own past, learned once and then frozen.

How warm a node is for its heat depends on its fans, and these on load and room by an unknown law. So nothing is
extrapolated from its past: normal is what was seen at a similar power and inlet temperature. Each such cell is learned
over some windows and then frozen; where no cell is near, there is no judgement.
"""

from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# How far conditions may lie from the middle of a cell. heuristic: with fans that hold a temperature, resistance goes
# with ``(target - inlet) / power``, so a corner of a cell is 15 % off its middle at most and a window inside it 5 %.
NEAR_POWER_RATIO = 0.08
NEAR_AIR_C = 2.0
# Cells of one entity. heuristic: six loads in two rooms.
CELLS = 12
_Cells: TypeAlias = Annotated[FloatArray, 0.0, CELLS]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LikePast:
    """Cells, each array of shape ``(n_entities, CELLS)``; a cell without windows is free."""

    log_power: _Cells
    air_c: _Cells
    mean: _Cells
    windows: _Cells

    def like(self, power_w: FloatArray, air_c: FloatArray) -> "Likeness":
        """Find the cell that is nearest to the conditions of each entity."""
        known = (power_w > 0) & np.isfinite(air_c)
        log_power = np.log(np.where(known, power_w, 1.0))
        off_power = np.abs(self.log_power - log_power[:, np.newaxis]) / NEAR_POWER_RATIO
        off_air = np.abs(self.air_c - np.where(known, air_c, 0.0)[:, np.newaxis]) / NEAR_AIR_C
        distance = np.where(self.windows > 0, np.maximum(off_power, off_air), np.inf)
        cell = np.argmin(distance, axis=1)
        near = known & (np.take_along_axis(distance, cell[:, np.newaxis], axis=1)[:, 0] <= 1.0)
        return Likeness(known=known, near=near, cell=cell, log_power=log_power, air_c=air_c)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Likeness:
    """Present conditions of each entity and its nearest cell; `near` where that cell matches."""

    known: MaskArray
    near: MaskArray
    cell: np.ndarray[tuple[int], np.dtype[np.intp]]
    log_power: FloatArray
    air_c: FloatArray


def expected_from_past(past: LikePast, likeness: Likeness, *, windows: int) -> FloatArray:
    """Return the normal value under these conditions, NaN where no cell that has learned its windows is near."""
    rows = np.arange(len(likeness.cell))
    ready = likeness.near & (past.windows[rows, likeness.cell] >= windows)
    return np.where(ready, past.mean[rows, likeness.cell], np.nan)


def learn_past(past: LikePast, likeness: Likeness, value: FloatArray, *, where: MaskArray, windows: int) -> LikePast:
    """Add one window of the entities marked: into the cell that is near, or into a free one.

    A cell that has its windows is frozen; with all cells in use nothing more is learned. NaN changes nothing.
    """
    rows = np.arange(len(likeness.cell))
    free = np.argmin(past.windows, axis=1)
    has_free = past.windows[rows, free] == 0
    cell = np.where(likeness.near, likeness.cell, free)
    usable = where & likeness.known & np.isfinite(value) & (likeness.near | has_free)
    used = usable & (past.windows[rows, cell] < windows)
    if not used.any():
        return past
    at = rows[used], cell[used]
    opened = past.windows[at] == 0
    log_power, air_c, mean, count = past.log_power.copy(), past.air_c.copy(), past.mean.copy(), past.windows.copy()
    log_power[at] = np.where(opened, likeness.log_power[used], log_power[at])
    air_c[at] = np.where(opened, likeness.air_c[used], air_c[at])
    count[at] += 1
    mean[at] += (value[used] - mean[at]) / count[at]
    return LikePast(log_power=log_power, air_c=air_c, mean=mean, windows=count)


def accept_past(past: LikePast, where: MaskArray) -> LikePast:
    """Reset the past of the marked entities."""
    return replace(past, windows=np.where(where[:, np.newaxis], 0.0, past.windows))
