"""Normal excess of a slot over its siblings, and normal values of an entity's own past; learned once and then frozen.

Slots differ: the air arrives warmer at the rear, boards report their power a few per cent wrong. So a GPU's excess over
its siblings, ``a + b x`` with `x` the rise that they would show at its power, is learned by Bayesian regression. The
prior limits how much slots may differ; where the load never changed while learning, it decides what belongs to `a` and
what to `b`. After its windows a slot is frozen, so that a fault is never learned, until an operator accepts it as it is
now.

How warm a node is for its heat depends on its fans, and these on load and room by an unknown law. So nothing is
extrapolated from its past: normal is what was seen at a similar power and inlet temperature. Each such cell is learned
over some windows and then frozen; where no cell is near, there is no judgement.
"""

from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np

from analytics.heat.comparison import SCATTER_C
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# Prior: constant part. Assumption: warm air adds up to 2.5 K at the rear slots of a chassis.
CONSTANT_SD_C = 2.0
# Prior: proportional part. In two healthy nodes of 8 H100 SXM, air-cooled, four GPUs ran 10 K hotter than the other
# four at the same power (computed from public recordings at 10 Hz): a quarter of a rise of 40 K, here two standard
# deviations. The air that neighbours heat grows with the load of the node, as the rise does. Boards that report their
# power within 5 % (Yang et al., SC'24, arXiv 2312.02741) and interfaces that differ come on top, and are less.
SLOPE_SD_RATIO = 0.12
# heuristic: no slot more than halves the rise, four standard deviations; below, a power or a temperature is wrong.
_LEAST_SLOT_RATIO = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotOffsets:
    """Sums of the regression, each of shape ``(n_gpus,)``; an uncertain window counts as part of one."""

    windows: FromZero
    rise: FromZero
    rise_rise: FromZero
    excess: FromZero
    rise_excess: FromZero

    def learned(self, windows: int) -> MaskArray:
        """Return a mask of slots with enough windows, which are frozen."""
        enough: MaskArray = self.windows >= windows
        return enough


def learn_slots(
    offsets: SlotOffsets, *, rise_c: FloatArray, excess_c: FloatArray, variance_c2: FloatArray, where: MaskArray
) -> SlotOffsets:
    """Add one window of the slots marked, which are not frozen yet; NaN changes nothing."""
    used = where & np.isfinite(rise_c) & np.isfinite(excess_c)
    if not used.any():
        return offsets
    rise_c, excess_c = np.where(used, rise_c, 0.0), np.where(used, excess_c, 0.0)
    weight = np.where(used, SCATTER_C**2 / np.where(used, variance_c2, 1.0), 0.0)
    return SlotOffsets(
        windows=offsets.windows + weight,
        rise=offsets.rise + weight * rise_c,
        rise_rise=offsets.rise_rise + weight * rise_c * rise_c,
        excess=offsets.excess + weight * excess_c,
        rise_excess=offsets.rise_excess + weight * rise_c * excess_c,
    )


def slot_offset_c(offsets: SlotOffsets, rise_c: FloatArray) -> FloatArray:
    """Return the offset of a healthy slot at a rise, in kelvin; 0 where nothing was learned."""
    constant_c, slope = slot_line(offsets)
    added: FloatArray = constant_c + slope * rise_c
    return added


def rise_without_slot_c(offsets: SlotOffsets, rise_c: FloatArray) -> FloatArray:
    """Return the rise that a GPU would show in a slot that adds nothing, from what it shows in its own."""
    constant_c, slope = slot_line(offsets)
    without: FloatArray = (rise_c - constant_c) / np.maximum(1.0 + slope, _LEAST_SLOT_RATIO)
    return without


def slot_variance_c2(offsets: SlotOffsets, rise_c: FloatArray) -> FloatArray:
    """Return the variance of the offset: large at a rise that was not seen while learning."""
    aa, bb, determinant = _precision(offsets)
    spread: FloatArray = bb - 2.0 * offsets.rise * rise_c + aa * rise_c * rise_c
    return SCATTER_C**2 * spread / determinant


def slot_line(offsets: SlotOffsets) -> tuple[FloatArray, FloatArray]:
    """Return the constant part in kelvin and the proportional part, each the mean of its posterior."""
    aa, bb, determinant = _precision(offsets)
    ab = offsets.rise
    constant_c = (bb * offsets.excess - ab * offsets.rise_excess) / determinant
    slope = (aa * offsets.rise_excess - ab * offsets.excess) / determinant
    return constant_c, slope


def _precision(offsets: SlotOffsets) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the squares of both parts with the prior, and the determinant, which the prior keeps above zero."""
    aa = offsets.windows + (SCATTER_C / CONSTANT_SD_C) ** 2
    bb = offsets.rise_rise + (SCATTER_C / SLOPE_SD_RATIO) ** 2
    return aa, bb, aa * bb - offsets.rise * offsets.rise


def accept_slots(offsets: SlotOffsets, where: MaskArray) -> SlotOffsets:
    """Reset the marked slots."""
    return reset_where(offsets, filled(SlotOffsets, len(where)), where)


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
