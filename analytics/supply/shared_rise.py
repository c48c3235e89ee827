"""Resistances that rise on a bus whose shares stay as they are: of no supply in particular.

Where supplies droop against each other, a joint that got worse takes current off its own supply. Where a loop trims
every output to its share, it does not: the loop raises that supply's output and lowers the others', so the voltage of
each falls more steeply with the current than before, at the bus by the n-th part of the joint, and at the outputs of
all but the one with the joint. Its own pair does not show which supply it is. Paths that all age alike leave the shares
as they are too.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import group_sum, known_count
from analytics.supply.current_share import BusBlock
from analytics.supply.share_block import ShareMeans
from analytics.supply.stream_estimate import BlockMeans
from analytics.supply.swing_share import GAIN, SURE_SD, UsualSwing
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: two joints of one bus that got worse together, by almost four times each, differ by more than this in the
# shares of their supplies; under a loop the shares of sound and of worn supplies stay within half of a per cent.
_STAYS = 0.02
# Standard deviation of such a mean over that of a block.
_MEAN_SD = np.sqrt(GAIN / (2.0 - GAIN))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BusShares:
    """Shares in the steps of the load, shape ``(n_supplies,)``; `off` is a weighted mean of their logarithm."""

    usual: UsualSwing
    off: FromZero

    def after_block(self, means: BlockMeans, groups: GroupArray) -> "BusShares":
        """Add a block; one in which the load stands still, or a supply rests, adds nothing."""
        parts = ShareMeans(
            current_a=means.mean_a,
            voltage_v=means.mean_v,
            swing_a=2.0 * means.spread_a,
            step_a=np.full_like(means.mean_a, np.nan),
        )
        swing = BusBlock.of(parts, groups).swing
        if not np.isfinite(swing).any():
            return self
        off = swing - self.usual.level
        known = np.isfinite(off)
        return replace(
            self,
            usual=self.usual.taught(known, swing).learn(~known, swing),
            off=self.off + np.where(known, GAIN * (off - self.off), 0.0),
        )

    def stay(self, groups: GroupArray) -> MaskArray:
        """Return a mask of supplies of a bus on which every share is known and none fell."""
        within = np.maximum(_STAYS, SURE_SD * _MEAN_SD * self.usual.noise())
        known = known_count(self.usual.level, groups)
        same = group_sum(np.where(self.off > -within, 1.0, 0.0), groups)
        size = group_sum(np.ones(len(known)), groups)
        return np.asarray((size > 1) & (known >= size) & (same >= size), dtype=np.bool_)


def has_calm_sibling(ratio: FloatArray, seen: MaskArray, groups: GroupArray, *, within: float) -> MaskArray:
    """Return a mask of supplies with a sibling `seen` in this block with a resistance as usual, within a ratio."""
    calm = np.where(seen & (np.abs(ratio - 1.0) < within), 1.0, 0.0)
    return np.asarray(group_sum(calm, groups) - calm > 0, dtype=np.bool_)
