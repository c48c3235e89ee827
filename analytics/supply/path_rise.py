"""Rise of the path between a supply's output and its bus, from the steps of the load.

Outputs of one bus fall alike with its droop as the load steps up. A joint behind an output lifts it in proportion to
its own current, so its voltage falls less steeply than its siblings'. That holds where a loop shares the current and no
share moves; a meter's offset, a set point and what drifts within minutes leave the steps as they are. Where supplies
droop against each other, the slopes follow the shares, which `swing_share` judges.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.change.control_charts import CusumState, cusum_step
from analytics.supply.slow_change import THRESHOLD_SD
from analytics.supply.swing_share import GAIN, MOST_SUM_SD, SURE_SD, UsualSwing
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: gains of voltage meters that drift by 0.2 % change a droop of 2 % by 4e-5 of the voltage.
PATH_FLOOR = 5e-5
# heuristic: siblings whose share in the steps is as usual within this; another one tilts the own voltage over it.
_SAME_SHARE = 0.02
# heuristic: a current that follows its siblings' worse than by a tenth is late, or read at other moments.
_FOLLOWS_SD = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathSteps:
    """Path of each supply over its siblings' in one block, shape ``(n_supplies,)``, as shares of the voltage.

    `drop` is its voltage at the usual current, NaN where the steps do not show it, `sd` its standard deviation, `step`
    the step of the voltage's meter at as much current as the load moves; `share_off` and `share_sd` are the logarithm
    of the share in the steps over the usual, and its standard deviation.
    """

    drop: FloatArray
    sd: FloatArray
    step: FloatArray
    share_off: FloatArray
    share_sd: FloatArray

    @property
    def shown(self) -> MaskArray:
        """Return a mask of supplies that carry their usual share of the steps, and whose current follows them."""
        same = np.abs(self.share_off) < _SAME_SHARE + SURE_SD * self.share_sd
        return np.asarray(np.isfinite(self.drop) & same & (self.share_sd < _FOLLOWS_SD), dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathRise:
    """Usual path, and the test of each supply, shape ``(n_supplies,)``.

    `rise` is a weighted mean of what the path takes of the voltage at the usual current over the usual, `step` the
    step of the meter in the blocks of that mean.
    """

    usual: UsualSwing
    cusum: CusumState
    rise: FromZero
    step: FromZero

    def after_block(self, steps: PathSteps) -> "PathRise":
        """Judge one block."""
        shown = steps.shown & np.isfinite(self.usual.level)
        off = np.where(shown, steps.drop - self.usual.level, np.nan)
        usual_sd = self.usual.noise(PATH_FLOOR)
        sigma = np.hypot(usual_sd, np.where(shown, steps.sd, 0.0))
        cusum = cusum_step(self.cusum, off, mean=0.0, sigma=sigma)
        cusum = replace(cusum, above=np.minimum(cusum.above, MOST_SUM_SD))
        gain = np.where(shown, GAIN * (usual_sd / sigma) ** 2, 0.0)
        return replace(
            self,
            cusum=cusum,
            rise=self.rise + gain * (np.nan_to_num(off) - self.rise),
            # As long as the block weighs in the rise.
            step=np.where(shown, np.fmax(steps.step, self.step + GAIN * (steps.step - self.step)), self.step),
        )

    def learn(self, calm: MaskArray, steps: PathSteps) -> "PathRise":
        """Learn level and scatter from calm blocks."""
        where = calm & steps.shown
        usual = self.usual.taught(where, steps.drop, PATH_FLOOR).learn(where, steps.drop)
        return replace(self, usual=usual)

    def risen(self, *, least: float, steps: float) -> MaskArray:
        """Return a mask of supplies whose path certainly takes more than `least` of the voltage more than usual.

        So many `steps` of the voltage's meter are its rounding.
        """
        far = self.rise > np.maximum(np.maximum(least, steps * self.step), SURE_SD * self.usual.noise(PATH_FLOOR))
        return np.asarray(far & (self.cusum.above > THRESHOLD_SD), dtype=np.bool_)

    def cleared(self, where: MaskArray) -> "PathRise":
        """Return the test with the sums of some supplies at zero again."""
        return replace(self, cusum=self.cusum.cleared(where))
