"""Comparison of GPUs with their siblings in one window: thermal resistance and excess."""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.heat.groups import group_median, group_size
from analytics.heat.windows import HeatWindow
from physics.cooling import felt_w
from telemetry.frames import FloatArray, MaskArray

# heuristic: siblings that hardly warm above the inlet do not show how well heat leaves them.
MIN_RISE_C = 5.0
# What a mean over a window scatters; temperatures are whole kelvin. Assumption.
SCATTER_C = 0.5
# Warm air at a slot adds to the rise whatever the power is, so siblings at another power let expect too much or too
# little by as much of it as their power differs. Assumption: up to 2.5 K at the rear slots of a chassis.
SLOT_AIR_C = 2.5
# heuristic: how wrong the lag of the heat sink may be for one GPU beside its siblings: a tenth of what it makes out.
LAG_ERROR = 0.1
# What one GPU in front of another adds at like power, as a share of the rise. In two healthy nodes of 8 H100 SXM,
# air-cooled, four GPUs ran 10 K hotter than the other four at the same power (computed from public recordings at 10
# Hz), 8.5 K in one of 8 A100 at 341 to 413 W (github.com/Beomi/KoAlpaca, train_v1.1b/README.md at 052c925): a quarter
# of 40 K. Fans that are slow at little load let the air warm more: 3.5 K of about 8 K at 190 W on a DGX B200 (an early
# Readme.md of github.com/DragonDescentZerotsu/Intern-S1-recipe).
FRONT_RATIO = 0.45
# A heat sink that carries within this of what comes in is in balance. heuristic: half a kelvin on a V100 at 250 W.
_BALANCE_RATIO = 0.03


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatComparison:
    """Every GPU in one window, each array of shape ``(n_gpus,)``; NaN where it is not known.

    `felt_w` is the power that the temperature reflects, `rise_c` how far the GPU is above the inlet, `sibling_rise_c`
    what it would be with the siblings' thermal resistance, `excess_c` the difference, `variance_c2` its variance, which
    counts sinks out of balance: the air behind them follows them. `unlike_c` is what the difference may be off by in
    every window alike, since the siblings draw another power.
    """

    power_w: FloatArray
    felt_w: FloatArray
    temp_c: FloatArray
    air_c: FloatArray
    rise_c: FloatArray
    sibling_rise_c: FloatArray
    excess_c: FloatArray
    variance_c2: FloatArray
    unlike_c: FloatArray


def balanced(window: HeatWindow) -> MaskArray:
    """Return a mask of GPUs whose heat sink is in balance; False with too few samples."""
    level: MaskArray = np.abs(window.power_w - window.sink_w) <= _BALANCE_RATIO * window.power_w
    return level


def compare(
    window: HeatWindow,
    groups: GroupArray,
    *,
    air_c: FloatArray,
    usable: MaskArray,
    reference_c: FloatArray | None = None,
    min_rise_c: float = MIN_RISE_C,
) -> HeatComparison:
    """Compare the GPUs of a window where it is `usable` and they are warm enough.

    `reference_c` is how warm each would be in a slot that adds nothing, as its siblings are compared with it; its rise
    where it is None. A GPU whose clocks were cut is no reference: it may be near its limit while its siblings are not.
    Neither is one that hardly warms, as at idle: its few kelvin are mostly the error of the inlet. `air_c` has no NaN
    where it is `usable`.
    """
    power_w = np.where(usable, window.power_w, np.nan)
    felt = felt_w(power_w, window.sink_w)
    rise_c = window.temp_c - air_c
    theta = (rise_c if reference_c is None else reference_c) / felt
    no_reference = window.cut | ((rise_c < min_rise_c) & (min_rise_c > 0.0))
    others = group_median(np.where(no_reference, np.nan, theta), groups, min_siblings=MIN_SIBLINGS)
    sibling_rise_c = others * felt
    sibling_rise_c = np.where(sibling_rise_c > min_rise_c, sibling_rise_c, np.nan)
    lag_c = LAG_ERROR * others * (power_w - felt)
    by_chance_c = chance_error(window.part_error, groups) * sibling_rise_c
    front_c = FRONT_RATIO * sibling_rise_c * np.abs(power_w - window.sink_w) / power_w
    return HeatComparison(
        power_w=power_w,
        felt_w=felt,
        temp_c=np.where(usable, window.temp_c, np.nan),
        air_c=air_c,
        rise_c=np.where(usable, rise_c, np.nan),
        sibling_rise_c=sibling_rise_c,
        excess_c=rise_c - sibling_rise_c,
        variance_c2=SCATTER_C**2 + lag_c**2 + by_chance_c**2 + front_c**2,
        unlike_c=SLOT_AIR_C * unlikeness(felt, groups),
    )


def chance_error(part_error: FloatArray, groups: GroupArray) -> FloatArray:
    """Return the relative standard error of each GPU's mean power, at least the root mean square of its group.

    Bursts that fell between the rows of a GPU leave no spread in them; those on its siblings' rows show it.
    """
    squares = np.where(np.isnan(part_error), 0.0, part_error) ** 2
    mean = np.bincount(groups, weights=squares)[groups] / group_size(groups)
    error: FloatArray = np.sqrt(np.maximum(squares, mean))
    return error


def unlikeness(felt_w: FloatArray, groups: GroupArray) -> FloatArray:
    """Return the relative difference of a GPU's power from its siblings'; 0 without siblings."""
    others_w = sibling_median(felt_w, groups, min_siblings=MIN_SIBLINGS)
    share: FloatArray = np.abs(felt_w / np.where(others_w > 0, others_w, np.nan) - 1.0)
    return np.where(np.isnan(share), 0.0, share)


def beyond(excess_c: FloatArray, unlike_c: FloatArray) -> FloatArray:
    """Return the excess less the explained part, of either sign; NaN stays NaN."""
    left: FloatArray = np.sign(excess_c) * np.maximum(np.abs(excess_c) - unlike_c, 0.0)
    return left
