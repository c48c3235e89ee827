"""Each GPU beside its siblings at one moment: how hot these let expect it to be, and how sure that is."""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.limits import HotterThanSiblingsLimits
from analytics.detectors.warm_means import WarmMeans
from analytics.heat.comparison import FRONT_RATIO, LAG_ERROR, MIN_RISE_C, SLOT_AIR_C, beyond, unlikeness
from analytics.heat.groups import group_median
from analytics.heat.slots import (
    SlotOffsets,
    Surroundings,
    flow_change,
    flow_error_c,
    front_variance_c2,
    slot_line,
    surroundings,
)
from physics.cooling import AIR_SHARE, SINK_S
from telemetry.frames import FloatArray, MaskArray

# heuristic: five readings at 1 Hz that fail to come in a row.
_SEEN_WITHIN_S = 5.0
# heuristic: where the power of late over that of the last minute differs by more from the siblings', the heat sinks
# carry what different loads left in them. Healthy ranks of one job differ by some hundredths.
_UNLIKE_RATIO = 0.15
# heuristic: and as much where they differ in what a slow sink, in little air, carries.
_UNLIKE_SINKS_RATIO = 0.1
# Where the inlet is not known and siblings draw another power, what it is off by counts as warm air at a slot does.
# heuristic: 5 K either way hold the rooms that ASHRAE TC 9.9 recommends (18 to 27 °C).
_INLET_OFF_C = 5.0
# Standard deviation of an excess around the line of its slot, in means of ten seconds. heuristic: half a step of the
# sensor, and what fans and a load that wanders within a minute add.
EXCESS_SCATTER_C = 1.0
# What a heat sink carried when the first row came is not known; it fades with the sink's time constant. Standard
# deviation of its part in the rise. heuristic: siblings with requests of their own differ by a fifth in their power of
# the last minute, of which half is felt through the sink.
_START_ERROR = 0.1
# A line is frozen at the loads at which its standard deviation is below this: where they lasted for ten minutes.
_KNOWN_C = 0.13


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiblingComparison:
    """Comparison of each GPU with its siblings, shape ``(n_gpus,)``; NaN where it is not possible.

    `siblings_c` is how far above the inlet the GPU would be at its power with the thermal resistance of its siblings as
    they are, `rise_c` the same without what their slots add. `over_c` is how much hotter it is than the latter,
    `unlike_c` what other loads explain of that, `start_c` how uncertain it is by what the heat sink carried at the
    start. `slot_c` is what its slot adds by what was learnt, `sd_c` the standard deviation of an excess over that, of
    which `lag_c` is by what the air still follows, and by how it flows; `ratio` and `excess_c` compare with both.
    """

    siblings_c: FloatArray
    rise_c: FloatArray
    over_c: FloatArray
    unlike_c: FloatArray
    start_c: FloatArray
    slot_c: FloatArray
    lag_c: FloatArray
    sd_c: FloatArray
    ratio: FloatArray
    excess_c: FloatArray


def compare_siblings(
    means: WarmMeans,
    slots: SlotOffsets,
    limits: HotterThanSiblingsLimits,
    *,
    now_ns: int,
    inlet_c: FloatArray,
    slow_w: FloatArray,
    power_limit_w: FloatArray,
    groups: GroupArray,
    engaged: MaskArray,
) -> tuple[SiblingComparison, Surroundings]:
    """Return each GPU beside its siblings, and what these do to its air.

    `slow_w` is what a slow heat sink would carry; those `engaged` by a fault do not show how the air flows.
    """
    gate_w = np.where(np.isnan(power_limit_w), limits.min_power_w, limits.min_power_ratio * power_limit_w)
    seen = means.seen_within(now_ns, _SEEN_WITHIN_S)
    late, sinks = (np.where(seen, one, np.nan) for one in (means.power_w / means.sink_w, means.sink_w / slow_w))
    loaded = (means.power_w > gate_w) & _like(late, groups, within=_UNLIKE_RATIO)
    loaded &= _like(sinks, groups, within=_UNLIKE_SINKS_RATIO)
    reference = loaded & ~means.cooled_within(now_ns, limits.smoothing_s)
    total_c = means.temp_c - np.where(np.isnan(inlet_c), limits.inlet_c, inlet_c)
    around = surroundings(slots, np.where(seen, means.felt_w, 0.0), groups)
    line = slot_line(slots)

    def sibling_theta(rise_c: FloatArray) -> FloatArray:
        return sibling_median(np.where(reference, rise_c / means.felt_w, np.nan), groups, min_siblings=MIN_SIBLINGS)

    without = np.where(reference, line.rise_without_c(total_c, around.ahead) / means.felt_w, np.nan)
    others = group_median(without, groups, min_siblings=MIN_SIBLINGS)
    rise_c = others * means.felt_w
    rise_c = np.where(rise_c >= MIN_RISE_C, rise_c, np.nan)
    air_c = SLOT_AIR_C + np.where(np.isnan(inlet_c), _INLET_OFF_C, 0.0)
    unlike_c = air_c * unlikeness(np.where(loaded, means.felt_w, np.nan), groups)
    unlike_c += LAG_ERROR * others * np.abs(means.power_w - means.felt_w)
    # Where sinks are slower than assumed, they carry what theirs would.
    unlike_c += AIR_SHARE * rise_c * unlikeness(np.where(loaded, sinks, np.nan), groups)
    over_c = total_c - rise_c
    slot_c, slot_lag_c, slot_c2 = _slot(
        slots,
        around,
        rise_c=rise_c,
        over_c=np.where(reference & ~engaged, over_c, np.nan),
        theta_k_per_w=others,
        groups=groups,
    )
    # The air that those in front heat follows their sinks, and their loads beside each other.
    lag_c = np.hypot(FRONT_RATIO * rise_c * np.abs(means.power_w / means.sink_w - 1.0), slot_lag_c)
    start_c = _START_ERROR * rise_c * np.exp(-means.observed_s / SINK_S)
    normal_c = np.maximum(rise_c + slot_c, MIN_RISE_C)
    comparison = SiblingComparison(
        siblings_c=sibling_theta(total_c) * means.felt_w,
        rise_c=rise_c,
        over_c=over_c,
        unlike_c=unlike_c,
        start_c=start_c,
        slot_c=slot_c,
        lag_c=lag_c,
        sd_c=np.sqrt(EXCESS_SCATTER_C**2 + start_c**2 + lag_c**2 + slot_c2),
        ratio=np.where(loaded, (rise_c + over_c) / normal_c, np.nan),
        excess_c=np.where(loaded, beyond(over_c - slot_c, unlike_c), np.nan),
    )
    return comparison, around


def _slot(
    slots: SlotOffsets,
    around: Surroundings,
    *,
    rise_c: FloatArray,
    over_c: FloatArray,
    theta_k_per_w: FloatArray,
    groups: GroupArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what a slot adds as the air flows now, how far off that may be, and the variance of what was learnt."""
    line = slot_line(slots)
    slot_c = line.offset_c(rise_c, around.ahead)
    flow = flow_change(over_c - slot_c, slot_c, groups)
    error_c = flow_error_c(slots, slot_c, flow, rise_c=rise_c, theta_k_per_w=theta_k_per_w)
    variance_c2 = front_variance_c2(rise_c, around) + np.maximum(line.variance_c2(rise_c, around.ahead), 0.0)
    return slot_c * (1.0 + flow), error_c, variance_c2


def is_known(comparison: SiblingComparison) -> MaskArray:
    """Return where the line of the slot is known at the present load."""
    known: MaskArray = comparison.sd_c**2 <= EXCESS_SCATTER_C**2 + _KNOWN_C**2
    return known


def _like(ratio: FloatArray, groups: GroupArray, *, within: float) -> MaskArray:
    """Return where a ratio is near that of the siblings, `within` as a share of theirs."""
    usual = sibling_median(ratio, groups, min_siblings=MIN_SIBLINGS)
    near: MaskArray = np.abs(ratio - usual) <= within * usual
    return near
