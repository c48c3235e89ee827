"""Levels of a node's watts: the newest means of five seconds, the least and the most that it drew."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.condition import IndexArray
from analytics.feeds.by_load import with_values
from analytics.feeds.node_watts import WattsPeriod
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: meters of nodes are read each second or two; some readings make a mean.
PERIOD_S = 5
# The newest means: a window that is looked at, what was before it, and what was before that.
WINDOW, BASE, RING = 4, 12, 20
# heuristic: levels that differ by 1 % are two; slots reach over a factor of two and a half.
_LEVEL_RATIO, _SLOTS = 0.01, 96
# Median absolute deviation of the normal distribution.
MAD_TO_SD = 1.4826
# heuristic: meters of whole nodes are read in watts, and idle fans move by some of them.
_NOISE_LEAST = 0.004
# heuristic: 390 recorded servers of 1 to 8 GPUs idle at 25 to 60 % of their load.
_IDLE_MOST, _IDLE_ELSE = 0.65, 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Newest means of each node, ``(n_nodes, 20)``, the newest last, NaN before they were read.

    `low_w` is the least that two means in a row were, `least_w` the least mean before the newest minute, `most_w`
    the highest median of a minute, `seen` the number of means. `visits` counts means in each slot of levels, `bins`
    names the level in it.
    """

    ring: Annotated[FloatArray, np.nan, RING]
    low_w: Annotated[FloatArray, np.inf]
    least_w: Annotated[FloatArray, np.inf]
    most_w: FromZero
    seen: FromZero
    visits: Annotated[FloatArray, 0.0, _SLOTS]
    bins: Annotated[FloatArray, np.nan, _SLOTS]

    @property
    def full(self) -> MaskArray:
        """Return a mask of nodes with all newest means known."""
        return np.isfinite(self.ring[:, 0])

    def after(self, period: WattsPeriod) -> "Levels":
        """Add a period; across a gap the means begin again."""
        ring = self.ring if period.passed_s > 0.0 else np.full_like(self.ring, np.nan)
        new = period.is_new
        shifted = np.concatenate((ring[:, 1:], period.watts[:, np.newaxis]), axis=1)
        ring = np.where(new[:, np.newaxis], shifted, ring)
        pair_w = np.maximum(ring[:, -1], ring[:, -2])
        after = replace(
            self,
            ring=ring,
            low_w=np.where(new, np.fmin(self.low_w, pair_w), self.low_w),
            least_w=np.where(new, np.fmin(self.least_w, ring[:, -WINDOW - BASE - 1]), self.least_w),
            seen=self.seen + new,
        )
        return after.with_visits(np.flatnonzero(new & np.isfinite(ring[:, -WINDOW - 1])))

    def with_visits(self, rows: IndexArray) -> "Levels":
        """Return the levels with the mean before the newest window counted as a level that was there."""
        if not rows.size:
            return self
        number = np.floor(np.log(np.maximum(self.ring[rows, -WINDOW - 1], 1.0)) / _LEVEL_RATIO)
        at = rows, number.astype(np.intp) % _SLOTS
        same = self.bins[at] == number
        visits = with_values(self.visits, at, np.where(same, self.visits[at], 0.0) + 1.0)
        return replace(self, visits=visits, bins=with_values(self.bins, at, number))

    def was_at(self, rows: IndexArray, level_w: FloatArray) -> FloatArray:
        """Return how many means of some nodes were at these levels, before the newest window."""
        number = np.floor(np.log(np.maximum(level_w, 1.0)) / _LEVEL_RATIO)
        count = np.zeros(len(rows))
        for near in (number - 1.0, number, number + 1.0):
            at = rows, near.astype(np.intp) % _SLOTS
            count += np.where(self.bins[at] == near, self.visits[at], 0.0)
        return count

    def with_most(self, rows: IndexArray, base_w: FloatArray) -> "Levels":
        """Return the levels with the median of a minute of some nodes."""
        most_w = self.most_w.copy()
        most_w[rows] = np.fmax(most_w[rows], base_w)
        return replace(self, most_w=most_w)

    def idle_w(self, base_w: FloatArray, rows: IndexArray) -> FloatArray:
        """Return what nodes draw when they idle; where they never did, three tenths of what they draw now."""
        low_w = self.low_w[rows]
        return np.where(low_w < _IDLE_MOST * base_w, low_w, _IDLE_ELSE * base_w)


def noise_of(values: FloatArray, middle: FloatArray) -> FloatArray:
    """Return the deviation of means ``(n_nodes, n)`` about their middle, at least 0.4 % of it."""
    spread = MAD_TO_SD * np.median(np.abs(values - middle[:, np.newaxis]), axis=1)
    return np.asarray(np.maximum(spread, _NOISE_LEAST * middle), dtype=np.float64)
