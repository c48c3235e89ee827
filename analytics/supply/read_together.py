"""Whether the supplies of a bus are read at one moment, as the steps of the load show.

A controller that reads its supplies one after another takes each at another phase of a load that goes up and down
faster. Where readings and load beat, the mean of one supply lies below its siblings' for minutes, and its voltage above
theirs: what a joint looks like. Such levels prove nothing. Currents that are read at one moment follow each step
together, by all but their noise; so does a load that moves slowly, whatever the meters do.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import group_sum
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: noise and steps of meters leave a few per cent of the variance of a current that moves by five of its steps
# to itself, readings at other moments of a load that has two levels most of it.
_APART = 0.1
# heuristic: meters read in turn show it in most blocks of a fast load; one block alone may be the one in which a joint
# gave way, and counts by a quarter.
_OFTEN, _FIRST_SHARE, _LATER_SHARE = 0.25, 1.0 / 4.0, 1.0 / 8.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadTogether:
    """State of each supply, shape ``(n_supplies,)``.

    `blocks` counts blocks in which the load moved, `often` is the weighted share of those in which its current did not
    follow its siblings'; `apart` marks supplies that did not in the newest block.
    """

    blocks: FromZero
    often: FromZero
    apart: MaskArray

    def after_block(self, unlike: FloatArray) -> "ReadTogether":
        """Add a block; `unlike` is the part of a current's variance without its siblings, NaN where the load stands."""
        moved = np.isfinite(unlike)
        blocks = np.minimum(self.blocks + moved, 1.0 / _LATER_SHARE)
        apart = moved & (unlike > _APART)
        gain = np.where(moved, np.minimum(1.0 / np.maximum(blocks, 1.0), _FIRST_SHARE), 0.0)
        return replace(self, blocks=blocks, often=self.often + gain * (apart - self.often), apart=apart)

    def levels_count(self, groups: GroupArray) -> MaskArray:
        """Return a mask of supplies on whose bus the mean of a block is of one load for all of them."""
        astray = self.apart | (self.often > _OFTEN)
        return np.asarray(group_sum(np.where(astray, 1.0, 0.0), groups) == 0, dtype=np.bool_)
