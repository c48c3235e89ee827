"""Most current that each supply ever carried with its path as usual, and supplies that are driven beyond it.

Near its limit a supply lets its output fall steeply with the current. Then the resistance of every supply of a bus
rises at once, at more current than they ever carried. A joint takes current off its own supply, and joints that all
age alike leave the current as it was.
"""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import group_sum
from analytics.supply.stream_estimate import BlockMeans
from telemetry.frames import FloatArray, MaskArray

# heuristic: a path this near to its reference is as usual.
_USUAL_WITHIN = 0.15
# heuristic: a load of constant power draws some per cent more from a rail that fell; that is no other load.
_MORE_THAN_EVER = 1.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CarriedLoad:
    """Highest current of blocks in which the path was as usual, shape ``(n_supplies,)``; NaN before the first."""

    high_a: FloatArray

    def after_block(self, means: BlockMeans, seen: MaskArray, ratio: FloatArray) -> "CarriedLoad":
        """Add a block; `ratio` is each path's resistance over its reference, of this block where it was `seen`."""
        usual = seen & ~(np.abs(ratio - 1.0) > _USUAL_WITHIN)
        return CarriedLoad(high_a=np.where(usual, np.fmax(self.high_a, _high_a(means)), self.high_a))

    def overdrawn(self, means: BlockMeans, risen: MaskArray, groups: GroupArray) -> MaskArray:
        """Return a mask of supplies of a bus of which each carries more than ever with a resistance that rose."""
        beyond = risen & (_high_a(means) > _MORE_THAN_EVER * self.high_a)
        members = group_sum(np.ones(len(risen)), groups)
        return np.asarray((members > 1) & (group_sum(np.where(beyond, 1.0, 0.0), groups) >= members), dtype=np.bool_)


def _high_a(means: BlockMeans) -> FloatArray:
    return np.asarray(means.mean_a + means.spread_a, dtype=np.float64)
