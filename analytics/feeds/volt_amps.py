"""Volts times amperes as a second witness of a feed's watts: what moves the watts alone is their meter.

The power factor goes with the load, but by less than half as much as the load.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.feeds.levels import RING
from analytics.feeds.readings import FeedPeriod
from telemetry.frames import FloatArray, MaskArray

# heuristic: half of the change of the watts, and three means of five seconds.
_AGREES_PART, _NEW = 0.5, 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoltAmps:
    """Newest volt-amperes of each feed, ``(n_feeds, 20)``, the newest last; NaN where volts or amperes are not read."""

    ring: Annotated[FloatArray, np.nan, RING]

    def after(self, period: FeedPeriod) -> "VoltAmps":
        """Add a period."""
        product_va = period.volts * period.amps
        shifted = np.column_stack((self.ring[:, 1:], product_va))
        return replace(self, ring=np.where(period.is_new[:, np.newaxis], shifted, self.ring))

    def deny(self, period: FeedPeriod, ratio: FloatArray, *, periods_ago: int) -> MaskArray:
        """Return a mask of feeds whose nodes' volt-amperes did not follow their watts, which changed by `ratio`.

        Where some are not read nothing is denied.
        """
        return _denied(self._node_sums(period), ratio, periods_ago)

    def deny_shares(self, period: FeedPeriod, ratio: FloatArray, *, periods_ago: int) -> MaskArray:
        """Return a mask of feeds whose volt-amperes towards the others' did not follow their watts."""
        others = self._node_sums(period) - self.ring
        shares = np.divide(self.ring, others, out=np.full_like(self.ring, np.nan), where=others > 0.0)
        return _denied(shares, ratio, periods_ago)

    def _node_sums(self, period: FeedPeriod) -> FloatArray:
        n_feeds = period.counted(period.is_feed)
        columns = [
            np.where(period.counted(np.isfinite(column)) == n_feeds, period.summed(column), np.nan)
            for column in self.ring.T
        ]
        return np.stack(columns, axis=1)


def _denied(rows: FloatArray, ratio: FloatArray, periods_ago: int) -> MaskArray:
    before, now = np.median(rows[:, :-periods_ago], axis=1), np.median(rows[:, -_NEW:], axis=1)
    moved = np.divide(now, before, out=np.full_like(now, np.nan), where=before > 0.0) - 1.0
    return np.asarray(moved * np.sign(ratio) < _AGREES_PART * np.abs(ratio), dtype=np.bool_)
