"""Share of each supply in the steps of its bus's load: its conductance over its siblings', whatever its set point.

Sources in parallel follow ``I_i = (E_i - V_bus) / R_i``, so a step of the load is divided by the resistances alone:
``dI_i / dI_others = R_others / R_i``. Set points shift a supply's mean and leave its steps; a joint anywhere between
source and bus takes the same part off both. No voltage is needed: meters at the common bus, pairs that are converted in
turn and voltages in coarse steps leave this as it is. The measure is the standard deviation of the current within a
block over the mean of the siblings'.

A current meter whose gain fell takes the same part off both too, and its siblings then carry no more than before. A
jump within a steady load shows that; a gain that drifts for hours looks like a joint.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.change.control_charts import CusumState, cusum_step
from analytics.supply.slow_change import THRESHOLD_SD
from physics.constants import MAD_TO_SD
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: as for the mean share, the median of eight blocks is known to half of the scatter of one.
SWING_BLOCKS = 8
# heuristic: levels learnt from eight blocks, and standard deviations of meters that beat with the load, lie within as
# much. Slopes know their own scatter; half of that leaves room for gains of current meters that drift by 0.2 % each.
SWING_FLOOR, STEPS_FLOOR = 0.02, 0.01
# heuristic: three such floors; no set point moves the share in the steps.
STEPS_RATIO = 0.97
# A level that is a median of eight blocks is off by 0.44 of their scatter. heuristic: twice their variance keeps a sum
# that allows half of a deviation from growing by that.
_LEVEL_DOUBT = 2.0
# heuristic: a mean over some four blocks rides out one in which the load changed; three standard deviations of a block
# are eight of such a mean.
GAIN, SURE_SD = 0.25, 3.0
# heuristic: a joint takes the same part off mean and steps; half of it may be hidden by set points at another load.
_SAME_PART = 0.5
# heuristic: later blocks count by a thirtieth in the scatter, and blocks further off than three deviations do not.
_LATER_SHARE, _TEACHES_SD = 1.0 / 32.0, 3.0
# heuristic: siblings that took over less than half of what the supply lost show a meter, where their load is known to a
# third of that.
_TAKEN_OVER, _LOAD_KNOWN = 0.5, 1.0 / 3.0
# heuristic: the load before is a mean over some thirty blocks; sixteen blocks later it may be another job.
_BEFORE_BLOCKS, _MOST_BLOCKS = 32.0, 16.0
# heuristic: noise takes the sum this far now and then; a fall of three deviations passes it with its first block.
_CALM_SUM_SD = 2.0
# A sum that lasts for years must still go down within minutes.
MOST_SUM_SD = 4.0 * THRESHOLD_SD
# Steps below one count of their meter show nothing: no fall is as deep as this.
_MOST_COUNT_RATIO = 1.0 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsualSwing:
    """Baseline of each supply: logarithm of its share in the steps of the load, shape ``(n_supplies,)``.

    `first` holds the first blocks; `level` is NaN until they are complete, and frozen then.
    """

    first: Annotated[FloatArray, np.nan, SWING_BLOCKS]
    level: FloatArray
    variance: FromZero

    def noise(self, floor: float = SWING_FLOOR) -> FloatArray:
        """Return the standard deviation of one block about a level that is not exact, at least the floor."""
        return np.sqrt(np.maximum(_LEVEL_DOUBT * self.variance, floor**2))

    def learn(self, where: MaskArray, swing: FloatArray) -> "UsualSwing":
        """Add a block to the baselines that are not complete; NaN adds nothing."""
        rows = np.flatnonzero(where & np.isfinite(swing) & np.isnan(self.level))
        if not rows.size:
            return self
        at = np.minimum(np.isfinite(self.first[rows]).sum(axis=1), SWING_BLOCKS - 1)
        first, level, variance = self.first.copy(), self.level.copy(), self.variance.copy()
        first[rows, at] = swing[rows]
        done = rows[np.isfinite(first[rows]).all(axis=1)]
        level[done] = np.median(first[done], axis=1)
        variance[done] = (MAD_TO_SD * np.median(np.abs(first[done] - level[done, np.newaxis]), axis=1)) ** 2
        return UsualSwing(first=first, level=level, variance=variance)

    def taught(self, where: MaskArray, swing: FloatArray, floor: float = SWING_FLOOR) -> "UsualSwing":
        """Learn the scatter from blocks that lie near the level."""
        off = swing - self.level
        near = where & (np.abs(off) < _TEACHES_SD * self.noise(floor))
        if not near.any():
            return self
        off = np.where(near, off, 0.0)
        return replace(self, variance=self.variance + np.where(near, _LATER_SHARE * (off**2 - self.variance), 0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SwingTest:
    """Test of each supply, shape ``(n_supplies,)``.

    `fall` and `mean_fall` are exponentially weighted means of the logarithms of the share in the steps, and of the
    mean share, against the usual; `mean_before` is that of the mean share before the steps fell: by then set points may
    have moved it far from the usual. `before` and `variance` are mean and variance of the logarithm of the siblings'
    current, `per_watt` of the GPUs where that is known, over `before_blocks` blocks in which nothing fell; `after` and
    `blocks` are its mean and the number of blocks since. `count_ratio` is the step of the current's meter over the
    steps in the newest block with any: rounding moves them by as much. `shown` marks supplies whose share in the steps
    is known in the newest block, `meter` those whose siblings took nothing over, `open` those of which that is not
    known yet.
    """

    cusum: CusumState
    fall: FromZero
    mean_fall: FromZero
    mean_before: FromZero
    before: FromZero
    before_blocks: FromZero
    variance: FromZero
    after: FromZero
    blocks: FromZero
    per_watt: MaskArray
    count_ratio: FromZero
    shown: MaskArray
    meter: MaskArray
    open: MaskArray

    @property
    def certain(self) -> MaskArray:
        """Return a mask of supplies whose share in the steps certainly fell in the newest block."""
        return np.asarray(self.shown & (self.cusum.below > THRESHOLD_SD), dtype=np.bool_)

    @property
    def by_meter(self) -> MaskArray:
        """Return a mask of supplies whose current may have fallen on their meter alone."""
        return self.meter | self.open

    def fallen(self, usual: UsualSwing, *, low_ratio: float) -> MaskArray:
        """Return a mask of supplies whose share in the steps fell below a ratio of the usual, as their mean did."""
        rounding = np.log1p(-np.minimum(self.count_ratio, _MOST_COUNT_RATIO))
        far = self.fall < np.minimum(np.minimum(np.log(low_ratio), rounding), -SURE_SD * usual.noise(STEPS_FLOOR))
        same = self.mean_fall - self.mean_before < _SAME_PART * self.fall
        return np.asarray(self.certain & far & same, dtype=np.bool_)

    def after_block(
        self,
        usual: UsualSwing,
        *,
        swing: FloatArray,
        swing_sd: FloatArray | float = 0.0,
        count_ratio: FloatArray,
        mean_off: FloatArray,
        others_a: FloatArray,
        gpus_w: FloatArray,
        bus_share: FloatArray,
    ) -> "SwingTest":
        """Add a block: logarithms of the share in the steps and of the mean share over the usual, NaN where unknown.

        `swing_sd` is the standard deviation of the first beyond the usual scatter of blocks. `others_a` is the
        siblings' current, `gpus_w` the power of the GPUs, `bus_share` what the supply carries of the whole bus.
        """
        off, noise = swing - usual.level, np.hypot(usual.noise(STEPS_FLOOR), swing_sd)
        shown = np.isfinite(off) & np.isfinite(mean_off)
        cusum = cusum_step(self.cusum, np.where(shown, off, np.nan), mean=0.0, sigma=noise)
        cusum = replace(cusum, below=np.minimum(cusum.below, MOST_SUM_SD))
        known = np.isfinite(others_a) & (others_a > 0.0)
        # A block whose slope is hardly known moves the mean by little.
        gain = GAIN * (usual.noise(STEPS_FLOOR) / noise) ** 2
        calm = shown & (cusum.below <= _CALM_SUM_SD)
        after = replace(
            self,
            cusum=cusum,
            fall=self.fall + np.where(shown, gain * (off - self.fall), 0.0),
            mean_fall=self.mean_fall + np.where(shown, gain * (mean_off - self.mean_fall), 0.0),
            mean_before=self.mean_before + np.where(calm, GAIN * (mean_off - self.mean_before), 0.0),
            count_ratio=np.where(shown, count_ratio, self.count_ratio),
            shown=shown,
        )
        per_watt = known & (gpus_w > 0.0)
        after = after.compared_by(per_watt, known)
        others = np.where(known, others_a, np.nan) / np.where(per_watt, gpus_w, 1.0)
        return after.with_load(np.log(others), bus_share)

    def compared_by(self, per_watt: MaskArray, known: MaskArray) -> "SwingTest":
        """Begin anew with the load before where the power of the GPUs came to be known, or no more is."""
        if not (other := known & (per_watt != self.per_watt)).any():
            return self
        return replace(
            self,
            before=np.where(other, 0.0, self.before),
            before_blocks=np.where(other, 0.0, self.before_blocks),
            variance=np.where(other, 0.0, self.variance),
            after=np.where(other, 0.0, self.after),
            blocks=np.where(other, 0.0, self.blocks),
            per_watt=np.where(known, per_watt, self.per_watt),
            meter=np.asarray(self.meter & ~other, dtype=np.bool_),
        )

    def with_load(self, others: FloatArray, bus_share: FloatArray) -> "SwingTest":
        """Compare the siblings' load since the fall began, a logarithm, with the load before it."""
        calm = np.isfinite(others) & (self.cusum.below <= _CALM_SUM_SD)
        falls = np.isfinite(others) & ~calm
        before_blocks = np.minimum(self.before_blocks + calm, _BEFORE_BLOCKS)
        gap = np.where(calm, others - self.before, 0.0)
        before = self.before + gap / np.maximum(before_blocks, 1.0)
        # The first block is the mean itself.
        spread = np.where(self.before_blocks > 0, gap**2 - self.variance, 0.0)
        variance = self.variance + np.where(calm, spread / np.maximum(before_blocks, 1.0), 0.0)
        blocks = np.where(calm, 0.0, self.blocks + falls)
        after = np.where(calm, 0.0, self.after)
        after = after + np.where(falls, (others - after) / np.maximum(blocks, 1.0), 0.0)
        taken = np.log1p(np.clip(bus_share, 0.0, 0.9) * (np.exp(-np.minimum(self.fall, 0.0)) - 1.0))
        doubt = np.sqrt(variance * (1.0 / np.maximum(before_blocks, 1.0) + 1.0 / np.maximum(blocks, 1.0)))
        known = falls & (blocks <= _MOST_BLOCKS) & (doubt < _LOAD_KNOWN * taken)
        meter = np.where(known, np.abs(after - before) < _TAKEN_OVER * taken, self.meter & ~calm)
        return replace(
            self,
            before=before,
            before_blocks=before_blocks,
            variance=variance,
            after=after,
            blocks=blocks,
            meter=np.asarray(meter, dtype=np.bool_),
            open=np.asarray(calm | (falls & ~known & (blocks < _MOST_BLOCKS)), dtype=np.bool_),
        )
