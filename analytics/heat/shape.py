"""Growth of an excess with load: warm air adds the same at any power, a bad interface adds kelvin per watt."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# heuristic: what a window counts for after another one: the last fifty windows or so.
_KEEP = 0.98
# Load levels that differ less than this about their mean do not distinguish a line through the origin from a constant.
# heuristic: training against idle differs by three quarters.
MIN_SPREAD_RATIO = 0.15
MIN_WINDOWS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExcessSums:
    """Weighted sums of excess over power, each of shape ``(n_gpus,)``."""

    weight: FloatArray
    power: FloatArray
    power_power: FloatArray
    excess: FloatArray
    power_excess: FloatArray

    @staticmethod
    def empty(n_gpus: int) -> "ExcessSums":
        """Return the sums of no window."""
        zero = np.zeros(n_gpus)
        return ExcessSums(
            weight=zero.copy(), power=zero.copy(), power_power=zero.copy(), excess=zero.copy(), power_excess=zero.copy()
        )


def add_window(sums: ExcessSums, *, power_w: FloatArray, excess_c: FloatArray, kept: MaskArray) -> ExcessSums:
    """Add one window where both values are known; the sums are reset where it is not `kept`."""
    used = kept & np.isfinite(power_w) & np.isfinite(excess_c)
    power_w, excess_c = np.where(used, power_w, 0.0), np.where(used, excess_c, 0.0)
    keep = np.where(used, _KEEP, 1.0) * kept
    return ExcessSums(
        weight=sums.weight * keep + used,
        power=sums.power * keep + power_w,
        power_power=sums.power_power * keep + power_w * power_w,
        excess=sums.excess * keep + excess_c,
        power_excess=sums.power_excess * keep + power_w * excess_c,
    )


def grown_share(sums: ExcessSums) -> FloatArray:
    """Return the share of the excess that grows with power: 1 for kelvin per watt, 0 for kelvin; NaN while unknown."""
    weight = np.where(sums.weight >= MIN_WINDOWS, sums.weight, np.nan)
    power_w, excess_c = sums.power / weight, sums.excess / weight
    variance = sums.power_power / weight - power_w * power_w
    usable = (variance > (MIN_SPREAD_RATIO * power_w) ** 2) & (excess_c > 0)
    slope = (sums.power_excess / weight - power_w * excess_c) / np.where(usable, variance, np.nan)
    share: FloatArray = slope * power_w / np.where(usable, excess_c, np.nan)
    return share
