"""Excess heat of an entity over many windows: two smoothed levels of its ratio, and the share that grows with power.

One level follows within minutes, one over hours. Each window counts by what it knows: a ratio from a hundred watts is
four times as uncertain as one from four hundred. So every window is used, and a level knows how sure it is. Where
windows scatter beyond what they should, as with a job that draws its power in bursts which few samples meet, all of
them count for less. Warm air adds the same excess at any power, a bad interface adds kelvin per watt.
"""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# Share of a new window in the unrest. heuristic: as quick as the level that it guards.
_UNREST_SHARE = 0.3
# heuristic: a single step counts as three standard deviations at most: a fault that begins must not hide itself.
_LARGEST_STEP = 9.0
# How many standard deviations of its own a level must be away from zero. heuristic: once in 30,000 windows of the
# normal distribution, a month and a half under load. And how many of what is not known of what is normal, which is
# wrong in every window alike.
_SIGMAS, _SIGMAS_ALIKE = 4.0, 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Weighted means with exponential memory, each of shape ``(n_entities,)``, and how many windows went in.

    A weight is the inverse of a variance. `quick_unsure` and `slow_unsure` are as much weighted means of the standard
    deviation of what is normal, by which all ratios may be off alike. `last` is the newest ratio, `last_variance` its
    variance; `unrest` is the mean square of successive differences over what their variances let expect (von Neumann,
    Annals of Mathematical Statistics 12(4), 1941): a step counts in it once, a level not at all.
    """

    quick: FromZero
    quick_weight: FromZero
    quick_unsure: FromZero
    slow: FromZero
    slow_weight: FromZero
    slow_unsure: FromZero
    windows: FromZero
    last: FloatArray
    last_variance: FloatArray
    unrest: FromZero


def add_ratio(
    levels: Levels,
    ratio: FloatArray,
    variance: FloatArray | float,
    *,
    quick_share: float,
    slow_share: float,
    unsure: FloatArray | float = 0.0,
) -> Levels:
    """Add one window with the variance of its ratio; NaN leaves the levels as they are.

    `unsure` is the standard deviation of what is normal, by which it and the next ratios may be off alike.
    """
    used = np.isfinite(ratio) & np.isfinite(variance) & np.isfinite(unsure)
    weight = np.where(used, 1.0 / np.where(used, variance + np.square(unsure), 1.0), 0.0)

    def moved(
        level: FloatArray, of_level: FloatArray, so_far: FloatArray, share: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        whole = np.where(used, so_far * (1.0 - share) + weight, so_far)
        part = weight / np.where(used, whole, 1.0)
        after: FloatArray = np.where(used, level + part * (ratio - level), level)
        alike: FloatArray = np.where(used, of_level + part * (unsure - of_level), of_level)
        return after, alike, whole

    quick, quick_unsure, quick_weight = moved(levels.quick, levels.quick_unsure, levels.quick_weight, quick_share)
    slow, slow_unsure, slow_weight = moved(levels.slow, levels.slow_unsure, levels.slow_weight, slow_share)
    step = np.minimum((ratio - levels.last) ** 2 / (variance + levels.last_variance), _LARGEST_STEP)
    known = np.isfinite(step)
    return Levels(
        quick=quick,
        quick_weight=quick_weight,
        quick_unsure=quick_unsure,
        slow=slow,
        slow_weight=slow_weight,
        slow_unsure=slow_unsure,
        windows=levels.windows + used,
        last=np.where(used, ratio, levels.last),
        last_variance=np.where(used, variance, levels.last_variance),
        unrest=levels.unrest + np.where(known, _UNREST_SHARE * (step - levels.unrest), 0.0),
    )


def doubt(levels: Levels, weight: FloatArray, unsure: FloatArray | float = 0.0) -> FloatArray:
    """Return the largest level that chance alone produces at this weight; infinite without data.

    `unsure` is that of the level, where what is normal is known only so well.
    """
    variance = np.maximum(levels.unrest, 1.0) / np.where(weight > 0, weight, np.nan)
    chance = np.sqrt(_SIGMAS**2 * variance + np.square(_SIGMAS_ALIKE * unsure))
    reach: FloatArray = np.where(weight > 0, chance, np.inf)
    return reach


def forget(levels: Levels, where: MaskArray) -> Levels:
    """Reset the levels of the marked entities; `unrest` stays."""
    return reset_where(levels, replace(filled(Levels, len(where)), unrest=levels.unrest), where)


# heuristic: what a window counts for after another one: the last fifty windows or so.
_KEEP = 0.98
# Load levels that differ less than this about their mean do not distinguish a line through the origin from a constant.
# heuristic: training against idle differs by three quarters.
MIN_SPREAD_RATIO = 0.15
MIN_WINDOWS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExcessSums:
    """Weighted sums of excess over power, each of shape ``(n_gpus,)``."""

    weight: FromZero
    power: FromZero
    power_power: FromZero
    excess: FromZero
    power_excess: FromZero


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
