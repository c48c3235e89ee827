"""Feeds that carry nothing while the others of their node took over what they did.

Watts alone show it, so that a meter without volts is enough. A node whose load fell by as much has a feed of another
load, or one that was switched off with it, and no loss of redundancy.
"""

from dataclasses import dataclass

import numpy as np

from analytics.feeds.readings import FeedPeriod
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# heuristic: a tenth of what the feed usually carries is what its meter and the standby of its supplies show.
DEAD_RATIO, BACK_RATIO = 0.1, 0.3
# heuristic: half of what it carried is more than a load moves within seconds, on the feeds of one node.
_TAKEN_PART = 0.5
# Cold redundancy puts supplies to sleep below some 40 % of what those that stay awake can carry, as for supplies of
# direct current (`analytics.supply.branches`); a node was seen at less than its capacity.
_AWAKE_RATIO = 0.5
# heuristic: firmware puts supplies to sleep within minutes. One that carried its share of a light load for five of them
# is not put to sleep on this node.
_NEVER_ASLEEP_S = 300.0
# heuristic: usual is the mean of a minute, and what it was just before the mean of five seconds.
_USUAL_S, _BEFORE_S = 60.0, 5.0
# heuristic: shares are known after half a minute.
LEARN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Takeover:
    """What each feed usually carries, and for how long it has carried nothing; shape ``(n_feeds,)``.

    `share` is its usual share of its node, `watts` and `others_w` are the power of the feed and of the others just
    before it carried nothing, `now_w` and `others_now_w` the newest. `since_ns` is when it began to carry nothing, 0
    where it carries something, `readings` how often that was read. `taken` marks those whose load the others took over,
    `most_w` is the most that the node ever drew, `light_s` for how long the feed carried its share of a light load, 0
    again once it did not.
    """

    share: FloatArray
    known_s: FromZero
    watts: FloatArray
    others_w: FloatArray
    now_w: FloatArray
    others_now_w: FloatArray
    since_ns: TimeArray
    readings: FromZero
    taken: MaskArray
    most_w: FromZero
    light_s: FromZero

    @property
    def dead(self) -> MaskArray:
        """Return a mask of feeds that carry nothing."""
        return np.asarray(self.since_ns > 0, dtype=np.bool_)


def after_period(state: Takeover, period: FeedPeriod) -> Takeover:
    """Add a period; nothing is learnt on a node on which a feed carries nothing, or is not read."""
    watts, is_feed = period.watts, period.is_feed
    n_feeds = period.counted(is_feed)
    if not (n_feeds > 1.0).any():
        return state
    total_w = period.summed(watts)
    others_w = total_w - watts
    limit = np.where(state.dead, BACK_RATIO, DEAD_RATIO)
    dead = (state.known_s >= LEARN_S) & (watts < limit * state.share * total_w) & (n_feeds > 1.0)
    begins = dead & ~state.dead
    light = total_w < _AWAKE_RATIO * state.most_w
    awake = ~light | (state.light_s >= _NEVER_ASLEEP_S)
    took_over = (others_w - state.others_w >= _TAKEN_PART * state.watts) & awake
    whole = is_feed & (period.counted(np.isfinite(watts) & ~dead) == n_feeds) & (total_w > 0.0)
    share = watts / np.where(total_w > 0.0, total_w, np.nan)
    readings = np.where(begins, 0.0, state.readings) + period.is_new
    return Takeover(
        share=_followed(state.share, share, whole, period.passed_s / _USUAL_S),
        known_s=np.where(whole, state.known_s + period.passed_s, state.known_s),
        watts=_followed(state.watts, watts, whole, period.passed_s / _BEFORE_S),
        others_w=_followed(state.others_w, others_w, whole, period.passed_s / _BEFORE_S),
        now_w=watts,
        others_now_w=others_w,
        since_ns=np.where(dead, np.where(begins, period.now_ns, state.since_ns), 0),
        readings=np.where(dead, readings, 0.0),
        taken=np.asarray(dead & (took_over | (state.taken & ~begins)), dtype=np.bool_),
        most_w=np.fmax(state.most_w, np.where(whole, total_w, 0.0)),
        light_s=np.where(begins & ~awake, 0.0, state.light_s + np.where(whole & light, period.passed_s, 0.0)),
    )


def _followed(before: FloatArray, now: FloatArray, where: MaskArray, weight: float) -> FloatArray:
    known = np.where(np.isfinite(before), before, now)
    return np.where(where, known + min(weight, 1.0) * (now - known), before)
