"""What a slot adds to the heat of its GPU over its siblings', learnt once and then frozen.

Slots differ: GPUs stand in air that others heated, boards report their power a few per cent wrong, sinks and paste
differ. So the excess of a GPU over its siblings is learnt as ``a + b x + c x q`` by Bayesian regression, `x` being the
rise that they would show at its power and `q` how much heat the others give to the air beside its own. Where all GPUs
work alike `q` is 1, and only ``b + c`` is known; where others are idle, or the air flows slower, it is another. The
prior limits how much slots may differ. After its windows a slot is frozen, so that a fault is never learnt, until an
operator accepts it as it is now.

Which GPU stands in front of which is not known. So a slot is as uncertain as its neighbours' loads are unlike those
under which it was learnt. And air that flows slower warms more: what the slots of a node add grows and shrinks together
with its fans, which the others of the node show.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from analytics.connectivity import GroupArray
from analytics.heat.comparison import FRONT_RATIO, SCATTER_C
from analytics.heat.groups import group_most, others_mean, others_sum, others_variance
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# Prior of the constant part. Assumption: warm air adds up to 2.5 K at the rear slots of a chassis at any load.
CONSTANT_SD_C = 2.0
# Prior of the GPU's own part. Eight A100 of one node under load, github.com/Beomi/KoAlpaca, train_v1.1b/README.md at
# 052c925: resistances over those of the same air scatter by 5 and 9 %. Boards report their power within 5 % (arXiv
# 2312.02741).
OWN_SD_RATIO = 0.08
# Prior of the air that others heat: what one in front adds at little load is two standard deviations.
AIR_SD_RATIO = 0.5 * FRONT_RATIO
# Its mean: others heat the air and never cool it, a third of all slots as much as those behind. What the siblings show
# has that in it, so that a GPU's own part is as much less.
_AIR_RATIO = FRONT_RATIO / 3.0
# heuristic: no slot more than halves the rise, four standard deviations; below, a power or a temperature is wrong.
_LEAST_SLOT_RATIO = 0.5
# heuristic: a GPU with less than a tenth of the load of the busiest is idle: what others do to it is not judged.
_LEAST_LOAD = 0.1
# What slots add, summed over the others, below which it shows nothing of the flow. heuristic: three slots of 2 K.
_SLOTS_ALIKE_C2 = 12.0
# heuristic: from fans at full speed to a fifth of it, learnt in between; and one GPU that is bad counts as 6 K.
_FLOW_RANGE, _MOST_LEFT_C = (-0.8, 2.0), 6.0
# heuristic: half of a change of the flow may not be one for a slot: paste and boards do not follow the fans.
_FLOW_ERROR = 0.5
# heuristic: a resistance within this of that while learning is at the same flow: sinks that still warm move it as much.
_SAME_FLOW = 0.05
# heuristic: loads of a node whose means lie within this of each other are alike: ranks of one job differ by hundredths.
_ALIKE_LOADS = 0.15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotOffsets:
    """Sums of the regression, each of shape ``(n_gpus,)``; an uncertain window counts as part of one.

    `air` is ``x q``, `theta` sums the resistance of its siblings. `load` sums the load of each GPU over that of the
    busiest of its node, over `load_windows`.
    """

    windows: FromZero
    rise: FromZero
    air: FromZero
    rise_rise: FromZero
    rise_air: FromZero
    air_air: FromZero
    excess: FromZero
    rise_excess: FromZero
    air_excess: FromZero
    theta: FromZero
    load: FromZero
    load_windows: FromZero

    def learned(self, windows: int) -> MaskArray:
        """Return a mask of slots with enough windows, which are frozen."""
        enough: MaskArray = self.windows >= windows
        return enough


def flow_error_c(
    offsets: SlotOffsets, slot_c: FloatArray, flow: FloatArray, *, rise_c: FloatArray, theta_k_per_w: FloatArray
) -> FloatArray:
    """Return how far off a slot may be as the air flows otherwise than while it was learnt.

    `flow` is by how much slots add more as the others show, `theta_k_per_w` the resistance of its siblings: it changes
    with the fans as what a slot adds does. A GPU's own part may have cancelled as much of warm air, which follows the
    fans otherwise.
    """
    usual = offsets.theta / np.where(offsets.windows > 0, offsets.windows, np.nan)
    changed = np.maximum(np.abs(theta_k_per_w / usual - 1.0) - _SAME_FLOW, 0.0)
    changed_c = np.where(np.isnan(changed), 0.0, changed) * np.hypot(slot_c, OWN_SD_RATIO * rise_c)
    error_c: FloatArray = _FLOW_ERROR * np.abs(slot_c * flow) + changed_c
    return error_c


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotLine:
    """Means and covariance of what was learnt, shape ``(n_gpus,)``: constant in kelvin, own part, part of the air."""

    constant_c: FloatArray
    own: FloatArray
    air: FloatArray
    constant_constant: FloatArray
    own_own: FloatArray
    air_air: FloatArray
    constant_own: FloatArray
    constant_air: FloatArray
    own_air: FloatArray

    def offset_c(self, rise_c: FloatArray, ahead: FloatArray) -> FloatArray:
        """Return the offset of a healthy slot at a rise, in kelvin; 0 where nothing was learnt."""
        added: FloatArray = self.constant_c + rise_c * (self.own + self.air * ahead)
        return added

    def rise_without_c(self, total_c: FloatArray, ahead: FloatArray) -> FloatArray:
        """Return the rise that a GPU would show in a slot that adds nothing, from what it shows in its own."""
        factor = np.maximum(1.0 + self.own + self.air * ahead, _LEAST_SLOT_RATIO)
        without: FloatArray = (total_c - self.constant_c) / factor
        return without

    def variance_c2(self, rise_c: FloatArray, ahead: FloatArray) -> FloatArray:
        """Return the variance of the offset: large at a rise, and beside others, that were not seen while learning."""
        own = self.own_own + ahead * (2.0 * self.own_air + ahead * self.air_air)
        both = self.constant_own + ahead * self.constant_air
        variance: FloatArray = self.constant_constant + rise_c * (2.0 * both + rise_c * own)
        return variance


def slot_line(offsets: SlotOffsets) -> SlotLine:
    """Return what was learnt: the posterior of the regression, by the cofactors of its precision."""
    cc = offsets.windows + (SCATTER_C / CONSTANT_SD_C) ** 2
    oo = offsets.rise_rise + (SCATTER_C / OWN_SD_RATIO) ** 2
    aa = offsets.air_air + (SCATTER_C / AIR_SD_RATIO) ** 2
    co, ca, oa = offsets.rise, offsets.air, offsets.rise_air
    cof_cc, cof_co, cof_ca = oo * aa - oa * oa, ca * oa - co * aa, co * oa - ca * oo
    cof_oo, cof_oa, cof_aa = cc * aa - ca * ca, co * ca - cc * oa, cc * oo - co * co
    scale = 1.0 / (cc * cof_cc + co * cof_co + ca * cof_ca)  # the prior keeps the determinant above zero
    e, re, ae = offsets.excess, offsets.rise_excess, offsets.air_excess
    variance = SCATTER_C**2 * scale
    return SlotLine(
        constant_c=scale * (cof_cc * e + cof_co * re + cof_ca * ae),
        own=scale * (cof_co * e + cof_oo * re + cof_oa * ae) - _AIR_RATIO,
        air=scale * (cof_ca * e + cof_oa * re + cof_aa * ae) + _AIR_RATIO,
        constant_constant=variance * cof_cc,
        own_own=variance * cof_oo,
        air_air=variance * cof_aa,
        constant_own=variance * cof_co,
        constant_air=variance * cof_ca,
        own_air=variance * cof_oa,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surroundings:
    """What the other GPUs of its node do to the air of each, shape ``(n_gpus,)``.

    `ahead` is the mean heat of the others over its own, `load` is its own load over that of the busiest. `unlike` is
    the variance of the change of the others' loads beside each other since a slot was learnt, over the square of its
    own: before, they are taken as alike. `spread` is that of their loads.
    """

    ahead: FloatArray
    load: FloatArray
    unlike: FloatArray
    spread: FloatArray


def is_alike(around: Surroundings, groups: GroupArray, *, level: MaskArray) -> MaskArray:
    """Return where all GPUs of a node work alike, so that the air of those in the same place is the same.

    `level` marks GPUs whose sinks are in balance with their power.
    """
    alike = level & (np.abs(around.ahead - 1.0) <= _ALIKE_LOADS) & (around.spread <= _ALIKE_LOADS**2)
    of_node: MaskArray = alike & (group_most(np.where(alike, 0.0, 1.0), groups) == 0.0)
    return of_node


def surroundings(offsets: SlotOffsets, felt_w: FloatArray, groups: GroupArray) -> Surroundings:
    """Return what the others do; a GPU that is not seen gives no heat."""
    given_w = np.where(felt_w > 0, felt_w, 0.0)
    most_w = group_most(given_w, groups)
    load = given_w / np.where(most_w > 0, most_w, 1.0)
    own = np.maximum(load, _LEAST_LOAD)
    usual = offsets.load / np.where(offsets.load_windows > 0, offsets.load_windows, 1.0)
    ahead = others_mean(load, groups) / own
    return Surroundings(
        ahead=np.where(np.isnan(ahead), 1.0, ahead),
        load=load,
        unlike=others_variance(load - usual, groups) / own**2,
        spread=others_variance(load, groups) / own**2,
    )


def front_variance_c2(rise_c: FloatArray, around: Surroundings) -> FloatArray:
    """Return the variance of an excess by neighbours whose loads changed beside each other: any may be in front."""
    variance: FloatArray = (FRONT_RATIO * rise_c) ** 2 * around.unlike
    return variance


def flow_change(excess_c: FloatArray, slot_c: FloatArray, groups: GroupArray) -> FloatArray:
    """Return by which share the slots of each node add more now, as the others of a node show; 0 where none does.

    `excess_c` is what is left of each GPU, NaN where it is not known. A GPU's own has no part in it: one that is bad
    moves none of the others.
    """
    known = np.isfinite(excess_c) & np.isfinite(slot_c)
    slot_c = np.where(known, slot_c, 0.0)
    left_c = np.clip(np.where(known, excess_c, 0.0), -_MOST_LEFT_C, _MOST_LEFT_C)

    change = others_sum(left_c * slot_c, groups) / (others_sum(slot_c * slot_c, groups) + _SLOTS_ALIKE_C2)
    return np.clip(change, *_FLOW_RANGE)


def learn_slots(
    offsets: SlotOffsets,
    *,
    rise_c: FloatArray,
    excess_c: FloatArray,
    variance_c2: FloatArray,
    around: Surroundings,
    groups: GroupArray,
    where: MaskArray,
    theta_k_per_w: FloatArray,
) -> SlotOffsets:
    """Add one window of the slots marked, which are not frozen yet; NaN changes nothing."""
    used = where & np.isfinite(rise_c) & np.isfinite(excess_c) & np.isfinite(variance_c2)
    if not used.any():
        return offsets
    expected_c = _AIR_RATIO * rise_c * (around.ahead - 1.0)
    rise_c, excess_c = np.where(used, rise_c, 0.0), np.where(used, excess_c - expected_c, 0.0)
    weight = np.where(used, SCATTER_C**2 / np.where(used, variance_c2, 1.0), 0.0)
    air_c, of_node = rise_c * around.ahead, group_most(weight, groups)
    return SlotOffsets(
        windows=offsets.windows + weight,
        rise=offsets.rise + weight * rise_c,
        air=offsets.air + weight * air_c,
        rise_rise=offsets.rise_rise + weight * rise_c * rise_c,
        rise_air=offsets.rise_air + weight * rise_c * air_c,
        air_air=offsets.air_air + weight * air_c * air_c,
        excess=offsets.excess + weight * excess_c,
        rise_excess=offsets.rise_excess + weight * rise_c * excess_c,
        air_excess=offsets.air_excess + weight * air_c * excess_c,
        theta=offsets.theta + weight * np.where(used, theta_k_per_w, 0.0),
        load=offsets.load + of_node * around.load,
        load_windows=offsets.load_windows + of_node,
    )


def mean_left_c(block: SlotOffsets, line: SlotLine) -> FloatArray:
    """Return what a line leaves on average of the windows of a block; NaN where it has none."""
    windows = np.where(block.windows > 0, block.windows, np.nan)
    expected_c = line.own * block.rise + line.air * block.air - _AIR_RATIO * (block.air - block.rise)
    left_c: FloatArray = (block.excess - expected_c) / windows - line.constant_c
    return left_c


def mean_variance_c2(block: SlotOffsets, line: SlotLine) -> FloatArray:
    """Return the variance of a line at the middle of the windows of a block; NaN where it has none."""
    windows = np.where(block.windows > 0, block.windows, np.nan)
    rise_c = block.rise / windows
    return np.maximum(line.variance_c2(rise_c, block.air / np.where(block.rise > 0, block.rise, np.nan)), 0.0)


def with_block(offsets: SlotOffsets, block: SlotOffsets, where: MaskArray) -> SlotOffsets:
    """Return the slots with the windows of a block added where it is marked."""
    kept = {one.name: np.where(where, getattr(block, one.name), 0.0) for one in fields(SlotOffsets)}
    return SlotOffsets(**{name: getattr(offsets, name) + added for name, added in kept.items()})


def accept_slots(offsets: SlotOffsets, where: MaskArray) -> SlotOffsets:
    """Reset the marked slots; what their neighbours usually do stays."""
    fresh = filled(SlotOffsets, len(where))
    return reset_where(offsets, replace(fresh, load=offsets.load, load_windows=offsets.load_windows), where)
