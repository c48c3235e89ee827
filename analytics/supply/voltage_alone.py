"""Voltages that fell alone: lower than those of the bus by more than any path drops, at the current as before.

The outputs of a bus differ by what their paths drop. A supply whose output falls towards its siblings' loses current to
them, and on a bus of its own a load of constant power draws more. So a voltage that falls by some per cent while the
current stays is that of a meter whose gain moved.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.supply.branches import DEAD_RATIO, USUAL_SHARE, group_sum, positive
from analytics.supply.stream_estimate import BlockMeans
from telemetry.frames import FloatArray, MaskArray

# heuristic: whole paths of 12 V drop 2 % under load, those of 54 V less than half of that.
LEAST_FALL = 0.02
# heuristic: a load of constant power draws as much more as its voltage fell; half of that is within a job's noise.
_SAME_CURRENT = 0.5
# heuristic: siblings whose own voltage moves by a quarter of it may hang on another feed.
_CALM_RATIO = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsualLevels:
    """Usual voltage and current of each supply over some blocks, shape ``(n_supplies,)``; NaN before the first."""

    voltage_v: FloatArray
    current_a: FloatArray

    def fell_alone(self, means: BlockMeans, groups: GroupArray) -> MaskArray:
        """Return a mask of supplies of which in this block only the voltage lies below those of its bus."""
        volts, amps = np.log(positive(means.mean_v) / self.voltage_v), np.log(positive(means.mean_a) / self.current_a)
        others_v = sibling_median(volts, groups, min_siblings=1)
        fall = others_v - volts
        share = np.abs(amps - sibling_median(amps, groups, min_siblings=1))
        calm = np.abs(others_v) < _CALM_RATIO * LEAST_FALL
        found = (fall > LEAST_FALL) & (share < _SAME_CURRENT * fall) & calm & self._carries(means)
        return np.asarray(found, dtype=np.bool_)

    def learn(self, means: BlockMeans, fell: MaskArray, groups: GroupArray) -> "UsualLevels":
        """Learn from a block, but nothing on a bus of which a voltage fell alone: all are compared with one time.

        A supply that carries nothing any more teaches nothing.
        """
        volts, amps = positive(means.mean_v), positive(means.mean_a)
        calm = group_sum(fell.astype(np.float64), groups) == 0
        known = calm & (self._carries(means) | np.isnan(self.current_a)) & np.isfinite(volts) & np.isfinite(amps)
        return replace(
            self,
            voltage_v=_moved(self.voltage_v, volts, known),
            current_a=_moved(self.current_a, amps, known),
        )

    def _carries(self, means: BlockMeans) -> MaskArray:
        return np.asarray(means.mean_a > DEAD_RATIO * self.current_a, dtype=np.bool_)


def _moved(usual: FloatArray, value: FloatArray, known: MaskArray) -> FloatArray:
    before = np.where(np.isnan(usual), value, usual)
    return np.where(known, before + USUAL_SHARE * (value - before), usual)
