"""Normal offset of each slot from its siblings, learned once and then frozen.

Slots differ: the air arrives warmer at the rear, boards report their power a few per cent wrong. So a GPU's excess over
its siblings, ``a + b x`` with `x` the rise that they would show at its power, is learned by Bayesian regression. The
prior limits how much slots may differ; where the load never changed while learning, it decides what belongs to `a` and
what to `b`. After its windows a slot is frozen, so that a fault is never learned, until an operator accepts it as it is
now.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.heat.comparison import SCATTER_C
from telemetry.frames import FloatArray, MaskArray

# Prior: constant part. Assumption: warm air adds up to 2.5 K at the rear slots of a chassis.
CONSTANT_SD_C = 2.0
# Prior: proportional part. Boards report power within 5 % (Yang et al., SC'24, arXiv 2312.02741), half of it as one
# standard deviation, and interfaces differ a little more than that. Assumption.
SLOPE_SD_RATIO = 0.04


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotOffsets:
    """Sums of the regression, each of shape ``(n_gpus,)``; an uncertain window counts as part of one."""

    windows: FloatArray
    rise: FloatArray
    rise_rise: FloatArray
    excess: FloatArray
    rise_excess: FloatArray

    @staticmethod
    def unknown(n_gpus: int) -> "SlotOffsets":
        """Return the state before the first window: nothing."""
        zero = np.zeros(n_gpus)
        return SlotOffsets(
            windows=zero.copy(), rise=zero.copy(), rise_rise=zero.copy(), excess=zero.copy(), rise_excess=zero.copy()
        )

    def learned(self, windows: int) -> MaskArray:
        """Return a mask of slots with enough windows, which are frozen."""
        enough: MaskArray = self.windows >= windows
        return enough


def learn(
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


def offset_c(offsets: SlotOffsets, rise_c: FloatArray) -> FloatArray:
    """Return the offset of a healthy slot at a rise, in kelvin; 0 where nothing was learned."""
    constant_c, slope = line(offsets)
    added: FloatArray = constant_c + slope * rise_c
    return added


def variance_c2(offsets: SlotOffsets, rise_c: FloatArray) -> FloatArray:
    """Return the variance of the offset: large at a rise that was not seen while learning."""
    aa, bb, determinant = _precision(offsets)
    spread: FloatArray = bb - 2.0 * offsets.rise * rise_c + aa * rise_c * rise_c
    return SCATTER_C**2 * spread / determinant


def line(offsets: SlotOffsets) -> tuple[FloatArray, FloatArray]:
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


def accept(offsets: SlotOffsets, where: MaskArray) -> SlotOffsets:
    """Reset the marked slots."""
    kept = ~where
    return replace(
        offsets,
        windows=offsets.windows * kept,
        rise=offsets.rise * kept,
        rise_rise=offsets.rise_rise * kept,
        excess=offsets.excess * kept,
        rise_excess=offsets.rise_excess * kept,
    )
