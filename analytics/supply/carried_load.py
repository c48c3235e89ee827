"""Most power that each supply ever carried with its path as usual, and supplies that are driven beyond it.

Near its limit a supply lets its output fall steeply with the current. Then the resistance of every supply of a bus
rises at once, at more power than they ever carried. A joint takes current off its own supply, and joints that all age
alike, or an input that sags, leave the power as it was.
"""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import group_sum
from analytics.supply.stream_estimate import BlockMeans
from telemetry.frames import FloatArray, MaskArray

# heuristic: a path this near to its reference is as usual.
_USUAL_WITHIN = 0.15
# heuristic: means of blocks of one job differ by some per cent.
_MORE_THAN_EVER = 1.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CarriedLoad:
    """Highest power of blocks in which the path was as usual, shape ``(n_supplies,)``; NaN before the first."""

    high_w: FloatArray

    def after_block(self, means: BlockMeans, seen: MaskArray, ratio: FloatArray) -> "CarriedLoad":
        """Add a block; `ratio` is each path's resistance over its reference, of this block where it was `seen`."""
        usual = seen & ~(np.abs(ratio - 1.0) > _USUAL_WITHIN)
        return CarriedLoad(high_w=np.where(usual, np.fmax(self.high_w, _high_w(means)), self.high_w))

    def overdrawn(self, means: BlockMeans, risen: MaskArray, groups: GroupArray, *, known: MaskArray) -> MaskArray:
        """Return a mask of supplies of a bus of which each carries more than ever and fell more steeply than its path.

        `risen` marks those that fell, `known` those whose path has a reference; two or more on a bus are enough.
        """
        beyond = risen & known & (_high_w(means) > _MORE_THAN_EVER * self.high_w)
        members = group_sum(np.where(known, 1.0, 0.0), groups)
        all_beyond = group_sum(np.where(beyond, 1.0, 0.0), groups) >= members
        return np.asarray(known & (members > 1) & all_beyond, dtype=np.bool_)


def _high_w(means: BlockMeans) -> FloatArray:
    return np.asarray((means.mean_a + means.spread_a) * means.mean_v, dtype=np.float64)
