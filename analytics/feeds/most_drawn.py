"""The most that a node drew under load, learnt from its watts, and how far above that it is.

A load that begins is no overload: what counts rises from a level near the most that the node ever drew, by no more
than half. Then nothing but the node itself explains it, and where its GPUs show their power they must not have risen as
much.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.feeds.node_watts import WattsPeriod
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# heuristic: meters of nodes are read each second or two; some readings make a mean.
PERIOD_S = 5
# heuristic: healthy machines rise by up to 7 % over what they drew for two minutes (half of 438 recordings, 69 hours).
OVER_RATIO, BACK_RATIO = 1.08, 1.04
# heuristic: what rises by more than half is another load.
_OTHER_LOAD_RATIO = 1.5
# heuristic: two minutes within a twentieth are a load where the node idles at four fifths of it or less; one that
# never idles is known after ten minutes.
LEARN_PERIODS, _SAME_RATIO, _OVER_IDLE_RATIO, _LONG_PERIODS = 24.0, 0.05, 1.25, 120.0
# heuristic: just before, the node drew 85 % of the most and more, and a twentieth less than now: supplies and chips
# that warm up raise a load by some per cent in minutes.
_FROM_RATIO, _STEP_RATIO = 0.85, 1.05
# heuristic: fifteen seconds in a row are too much; what is drawn for thirty was drawn at most, and no start of a job.
PERIODS, _SUSTAINED = 3, 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MostDrawn:
    """What each node drew at most, shape ``(n_nodes,)``.

    `means` are the newest, ``(n_nodes, 6)``; `held` counts those near `most_w`, `least_w` is the least ever. `above`
    counts the means in a row above `most_w`, since `since_ns`; `before_w` is the mean before these. `over` marks nodes
    above what is learnt.
    """

    means: Annotated[FloatArray, np.nan, _SUSTAINED]
    most_w: FloatArray
    held: FromZero
    least_w: FloatArray
    above: FromZero
    since_ns: TimeArray
    before_w: FloatArray
    over: MaskArray

    @property
    def last_w(self) -> FloatArray:
        """Newest mean of each node."""
        return self.means[:, -1]

    @property
    def known(self) -> MaskArray:
        """Return a mask of nodes that drew their most for long enough."""
        is_load = (self.most_w >= _OVER_IDLE_RATIO * self.least_w) | (self.held >= _LONG_PERIODS)
        return np.asarray((self.held >= LEARN_PERIODS) & is_load, dtype=np.bool_)

    def after(self, period: WattsPeriod, gpus_rose_w: FloatArray) -> "MostDrawn":
        """Add a period; `gpus_rose_w` is by how much the GPUs draw more than a while ago, NaN if unknown."""
        watts, new, most_w = period.watts, period.is_new, self.most_w
        is_above = new & (watts > OVER_RATIO * most_w)
        begins = is_above & (self.above == 0.0)
        above = np.where(new, np.where(is_above, self.above + 1.0, 0.0), self.above)
        before_w = np.where(begins, self.last_w, self.before_w)
        steps = (before_w >= _FROM_RATIO * most_w) & (watts >= _STEP_RATIO * before_w)
        own_rise_w = watts - most_w - np.where(np.isfinite(gpus_rose_w), np.maximum(gpus_rose_w, 0.0), 0.0)
        steps &= (watts < _OTHER_LOAD_RATIO * most_w) & (own_rise_w > (OVER_RATIO - 1.0) * most_w)
        over = (self.over & ~(new & (watts < BACK_RATIO * most_w))) | (self.known & steps & (above >= PERIODS))
        shifted = np.concatenate((self.means[:, 1:], watts[:, np.newaxis]), axis=1)
        means = np.where(new[:, np.newaxis], shifted, self.means)
        drawn_w = means.min(axis=1)
        more = new & ~over & (np.isnan(most_w) | (drawn_w > most_w)) & np.isfinite(drawn_w)
        other = more & ~(drawn_w <= (1.0 + _SAME_RATIO) * most_w)
        near = new & ~over & (watts > (1.0 - _SAME_RATIO) * most_w)
        return MostDrawn(
            means=means,
            most_w=np.where(more, drawn_w, most_w),
            held=np.where(other, 0.0, self.held + near),
            least_w=np.where(new, np.fmin(self.least_w, watts), self.least_w),
            above=above,
            since_ns=np.where(begins, period.now_ns, self.since_ns),
            before_w=before_w,
            over=np.asarray(over, dtype=np.bool_),
        )

    def forget(self, where: MaskArray) -> "MostDrawn":
        """Return it without what was learnt of some nodes."""
        return replace(
            self,
            most_w=np.where(where, np.nan, self.most_w),
            held=np.where(where, 0.0, self.held),
            over=np.asarray(self.over & ~where, dtype=np.bool_),
        )
