"""How the feeds of a node share its power, judged against what the same feeds did at a like load.

Compared is the power of each feed with the mean of the others, so that a load that moves does not count. What healthy
feeds do: 189 recorded sets (MLPerf Inference power logs, 46 hours) stay within 0.8 % at a load that was there for two
minutes, and wander by up to 13 % while the node idles, where nothing is judged.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.feeds.by_load import ByLoad, Departure, Usual
from analytics.feeds.readings import FeedPeriod
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# heuristic: an analyser reads its channels one after the other; means of five seconds hide that, and noise.
PERIOD_S = 5
# heuristic: two minutes at a like load; after one, 21 of 156 recorded sets have a false alarm, after two 10, nearly all
# of them idle.
LEARN_PERIODS = 24.0
# heuristic: a supply whose efficiency falls by 1 % draws 1 % more, so less than that is to be seen.
LEAST_RATIO = 0.008
# heuristic: recorded sets drift by up to 2 % in an hour as their supplies warm.
DRIFT_RATIO = 0.03
# heuristic: feeds that idle share by chance; what counts is a load of so much of the most that the node ever drew, and
# so much over the least, or one that was there for ten minutes.
LOADED_RATIO, OVER_IDLE_RATIO, _LONG_PERIODS = 0.6, 1.25, 120.0
# heuristic: a period in which the load stepped shows no share.
_STEADY_RATIO = 0.03
# heuristic: a feed with less than a fifth of the mean is lost or asleep, and no share of it is judged.
_CARRIES_RATIO = 0.2
# heuristic: feeds of one node move together; one that moves by a twentieth alone is that of another load.
_ALONE_RATIO, _TOGETHER_RATIO = 0.05, 0.2
_APART_MOST, _APART_FADES_S = 2.5, 600.0
# What was usual before a share left is the mean of half a minute that ended half a minute before it was found.
_RECENT, _BEFORE = 12, 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedShares:
    """Learnt shares and how far each feed is from its own, shape ``(n_feeds,)``.

    `most_w` and `least_w` are the most and the least that the node of a feed ever drew, `total_w` and `watts` those of
    the period before, `apart` counts feeds of its node that moved alone. `recent` and `others_recent` are the newest
    powers of the feed and of the others while all kept their shares, ``(n_feeds, 12)``, the newest last. `ratio` is the
    newest power of the feed over the mean of the others, `usual` what it usually is at such a load.
    """

    ratios: ByLoad
    departure: Departure
    drift: FromZero
    most_w: FromZero
    least_w: FloatArray
    total_w: FloatArray
    watts: FloatArray
    apart: FromZero
    recent: Annotated[FloatArray, np.nan, _RECENT]
    others_recent: Annotated[FloatArray, np.nan, _RECENT]
    ratio: FloatArray
    usual: FloatArray

    @property
    def before_w(self) -> FloatArray:
        """Usual power of each feed before it left its share."""
        return np.asarray(self.recent[:, :_BEFORE].mean(axis=1), dtype=np.float64)

    @property
    def others_w(self) -> FloatArray:
        """Usual power of the others of its node before it left its share."""
        return np.asarray(self.others_recent[:, :_BEFORE].mean(axis=1), dtype=np.float64)

    def forget(self, where: MaskArray) -> "FeedShares":
        """Return it without the learnt shares of some feeds, and without what was held against them."""
        if not where.any():
            return self
        none = filled(Departure, len(where))
        return replace(
            self,
            ratios=self.ratios.forget(where),
            departure=reset_where(self.departure, none, where),
            drift=np.where(where, 0.0, self.drift),
        )


def after_period(shares: FeedShares, period: FeedPeriod, *, frozen: MaskArray) -> FeedShares:
    """Add a period; nothing is learnt of the feeds of a node on which one is `frozen`, because it is looked at."""
    watts, is_feed = period.watts, period.is_feed
    count, sums = period.counted(is_feed), period.summed(watts)
    total_w = np.where(is_feed & (period.counted(np.isfinite(watts)) == count), sums, np.nan)
    others_w = total_w - watts
    mean_others_w = others_w / np.maximum(count - 1.0, 1.0)
    whole = (count > 1.0) & (period.counted(watts > _CARRIES_RATIO * mean_others_w) == count)
    steady = np.abs(total_w - shares.total_w) < _STEADY_RATIO * total_w
    apart = _apart(shares, period, watts, total_w)
    # A period in which a feed went off or came back is part one and part the other.
    stepped = period.counted(~(np.abs(watts - shares.watts) <= _ALONE_RATIO * shares.watts)) > 0.0
    known = whole & steady & ~stepped & period.is_new & (apart < _APART_MOST)
    ratio = np.divide(watts, mean_others_w, out=np.full_like(watts, np.nan), where=known & (mean_others_w > 0.0))
    usual = shares.ratios.usual(total_w, known_after=LEARN_PERIODS)
    most_w = np.fmax(shares.most_w, np.where(whole & steady, total_w, 0.0))
    least_w = np.fmin(shares.least_w, np.where(whole, total_w, np.nan))
    loaded = (total_w >= OVER_IDLE_RATIO * least_w) | (usual.count >= _LONG_PERIODS)
    judged = known & (usual.count >= LEARN_PERIODS) & (total_w >= LOADED_RATIO * most_w) & loaded
    departure = shares.departure.after(
        np.where(judged, ratio / usual.mean - 1.0, np.nan), usual.sd / usual.mean, period.passed_s, least=LEAST_RATIO
    )
    calm = known & (period.counted((departure.lasted_s > 0.0) | frozen) == 0.0)
    return FeedShares(
        ratios=shares.ratios.learn(total_w, ratio, calm, known_after=LEARN_PERIODS),
        departure=departure,
        drift=np.where(judged, _drift(usual), shares.drift),
        most_w=most_w,
        least_w=least_w,
        total_w=total_w,
        watts=watts,
        apart=apart,
        recent=_with_newest(shares.recent, watts, calm),
        others_recent=_with_newest(shares.others_recent, others_w, calm),
        ratio=np.where(judged, ratio, shares.ratio),
        usual=np.where(judged, usual.mean, shares.usual),
    )


def _drift(usual: Usual) -> FloatArray:
    """Return how far what is usual has left what it was when it became known."""
    off = usual.mean / usual.first - 1.0
    return np.where(np.isfinite(off), off, 0.0)


def _with_newest(recent: FloatArray, now: FloatArray, where: MaskArray) -> FloatArray:
    return np.where(where[:, np.newaxis], np.column_stack((recent[:, 1:], now)), recent)


def _apart(shares: FeedShares, period: FeedPeriod, watts: FloatArray, total_w: FloatArray) -> FloatArray:
    """Return the count of feeds of each node that moved alone, fading."""
    moved = watts - shares.watts
    others_moved = (total_w - shares.total_w) - moved
    alone = (np.abs(moved) > _ALONE_RATIO * shares.watts) & (np.abs(others_moved) < _TOGETHER_RATIO * np.abs(moved))
    return shares.apart * float(np.exp(-period.passed_s / _APART_FADES_S)) + period.counted(alone)


def furthest(far: FloatArray, candidates: MaskArray, groups: GroupArray) -> MaskArray:
    """Return a mask of the candidate that is furthest off in each group, the first of those alike."""
    found = np.zeros(len(far), dtype=np.bool_)
    rows = np.flatnonzero(candidates)
    if rows.size:
        order = rows[np.lexsort((rows, -far[rows], groups[rows]))]
        found[order[np.unique(groups[order], return_index=True)[1]]] = True
    return found
