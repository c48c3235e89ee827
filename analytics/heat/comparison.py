"""A window's GPUs beside their siblings: thermal resistance, and the excess over what the siblings would show."""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.heat.windows import HeatWindow
from telemetry.frames import FloatArray, MaskArray

# Fewer siblings leave no majority: of two that differ, either may be the odd one.
MIN_SIBLINGS = 2
# Time constant of a heat sink: 800 J/K on 0.06 K/W (V100 SXM2 of about 0.9 kg, assumption). What still warms by
# `drift` has this times `drift` to go.
SINK_S = 48.0
# Siblings that hardly warm above the inlet say nothing about how well heat leaves them. Own choice.
MIN_RISE_C = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Every GPU in one window, each array of shape ``(n_gpus,)``; NaN where it is not known.

    `rise_c` is how far the GPU is above the inlet once it is steady, `sibling_rise_c` what it would be at its power if
    heat left it as it leaves its siblings, `excess_c` the difference.
    """

    power_w: FloatArray
    temp_c: FloatArray
    air_c: FloatArray
    rise_c: FloatArray
    sibling_rise_c: FloatArray
    excess_c: FloatArray


def steady(window: HeatWindow, *, max_drift_c_per_s: float) -> MaskArray:
    """Give where temperatures moved slowly enough over the window; False where too little was seen."""
    slow: MaskArray = np.abs(window.drift_c_per_s) <= max_drift_c_per_s
    return slow


def compare(
    window: HeatWindow, groups: GroupArray, *, air_c: FloatArray, usable: MaskArray, min_rise_c: float = MIN_RISE_C
) -> Comparison:
    """Compare the GPUs of a window where it is `usable`, steady and under load.

    A GPU whose clocks were cut is no reference: it may be near its limit while its siblings are not. `air_c` has no
    NaN where it is `usable`.
    """
    power_w = np.where(usable, window.power_w, np.nan)
    rise_c = np.where(usable, window.temp_c + SINK_S * window.drift_c_per_s - air_c, np.nan)
    theta = rise_c / power_w
    others = sibling_median(np.where(window.cut, np.nan, theta), groups, min_siblings=MIN_SIBLINGS)
    sibling_rise_c = others * power_w
    sibling_rise_c = np.where(sibling_rise_c > min_rise_c, sibling_rise_c, np.nan)
    return Comparison(
        power_w=power_w,
        temp_c=np.where(usable, window.temp_c, np.nan),
        air_c=air_c,
        rise_c=rise_c,
        sibling_rise_c=sibling_rise_c,
        excess_c=rise_c - sibling_rise_c,
    )


def group_size(groups: GroupArray) -> GroupArray:
    """Give for each entity how many there are in its group, itself included."""
    return np.bincount(groups, minlength=1)[groups]


def group_part(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Give each value, ``(n_times, n_entities)``, over the mean of its group at that row; NaN stays NaN."""
    n_groups = int(groups.max(initial=0)) + 1
    places = np.arange(len(values))[:, np.newaxis] * n_groups + groups
    known = ~np.isnan(values)
    size = len(values) * n_groups
    sums = np.bincount(places.ravel(), weights=np.where(known, values, 0.0).ravel(), minlength=size)
    counts = np.bincount(places.ravel(), weights=known.ravel(), minlength=size)
    means = (sums / np.maximum(counts, 1.0))[places]
    part: FloatArray = values / np.where(means > 0, means, np.nan)
    return part


def coolest(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Give for each entity the lowest known value of its group, NaN where there is none."""
    lowest = np.full(int(groups.max(initial=0)) + 1, np.inf)
    np.minimum.at(lowest, groups, np.where(np.isnan(values), np.inf, values))
    found = lowest[groups]
    return np.where(np.isfinite(found), found, np.nan)
