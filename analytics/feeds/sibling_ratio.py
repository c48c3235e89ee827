"""What each node draws beside the others at the same work, and how far that left what it was.

Compared is the logarithm of its watts over the median of the others, by means of ten seconds under load. At the same
work are nodes whose watts move with those of the others: one that does not has a job of its own, and is not judged.
A meter under two names counts once.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.feeds.levels import MAD_TO_SD
from analytics.feeds.node_watts import WattsPeriod
from analytics.feeds.twins import MeterKeys, Twins
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray, filled, reset_where

# heuristic: ten seconds even out steps of training that nodes take at different times. Three new means are compared
# with up to 21 before them, with four at least: four minutes, of which half a minute is new.
PERIOD_S = 10
RING, _NEW, _LEAST = 24, 3, 7
# heuristic: the middle of fewer than four others is as odd as any.
_MIN_SIBLINGS = 4
# heuristic: means in which the load stepped, or of less than most of the load, compare edges.
_STEADY, _LOADED_RATIO = 0.06, 0.8
# heuristic: a node a quarter off does other work.
_OTHER_WORK = 0.3
# heuristic: recorded nodes of one job move together with a correlation of 0.7 to 1.0; where each has a course of its
# own (llama2_70b_lora on eight nodes) it is 0.3 to 0.8, and their watts are compared in vain.
_IN_STEP, _STEP_PERIODS, _STEP_MEMORY = 0.7, 10.0, 180.0
# heuristic: where a fifth of the nodes goes its own way, the rest has no common course either.
_TOGETHER_PART = 0.8
# heuristic: where more than half of the nodes are in step, and ten of them or more, their median is a common course
# whatever the others do (the one recorded job of 64 nodes; the healthy half of it has no alarm).
_MANY_TOGETHER, _MANY_PART = 10.0, 0.5
# heuristic: 0.6 % and five standard errors, as the means of one node are no white noise; and five times what the
# others have moved by meanwhile. The 11 recorded jobs of 8 to 64 nodes have no false alarm (MLPerf Training logs).
_LEAST_CHANGE, _ERRORS, _OTHERS = 0.006, 5.0, 5.0
_LEAST_SD, _COLOUR = 0.0007, 1.5
# A cumulative sum finds what a window of three means is too short for (Page 1954). heuristic: half a deviation, or
# 0.3 %, is let go; sixteen deviations in sum have no false alarm in the same recordings. What is usual follows half an
# hour.
_SLACK, _LEAST_SLACK, _SUM, _MOST_STEP, _MEMORY = 0.5, 0.003, 16.0, 6.0, 180.0
# heuristic: six deviations between healthy nodes, and 1.5 %: they differ by 0.7 % (64 nodes) to 5 %.
_ODD_DEVIATIONS, _LEAST_ODD, _LEAST_BETWEEN = 6.0, 0.015, 0.003
# heuristic: two minutes.
_LIKE_PERIODS = 12.0
# The standard error of a median over that of a mean; the ninth decile of a normal distribution's absolute deviation.
_MEDIAN = 1.25
_TAIL, _TAIL_SD, _TAIL_LEAST = 0.9, 1.645, 12
# heuristic: a node is like its siblings again at four tenths of what it was off, in three means in a row.
_BACK_PART, _BACK_PERIODS = 0.4, 3.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiblingRatio:
    """State of the comparison, shape ``(n_nodes,)``; `ring` holds the newest ratios, ``(n_nodes, 24)``, newest last.

    `own_w` and `others_w` are of the period before, `most_w` the most that the others drew. `together` has the fading
    sums of squares of both changes and of their product, and their number. `changed` is how far a node left what it
    was, 0 where it did not, since `since_ns`, `base` what it was, `back` the means in a row in which it is back.
    `usual` is its usual ratio from `learnt` means, `sums` are the cumulative sums upwards and downwards. `odd` is how
    far it is off the others, 0 where it is like them, as it was for `like` means in a row; `now` is the newest ratio.
    """

    twins: Twins
    ring: Annotated[FloatArray, np.nan, RING]
    own_w: FloatArray
    others_w: FloatArray
    most_w: FromZero
    together: Annotated[FloatArray, 0.0, 4]
    base: FloatArray
    changed: FromZero
    since_ns: TimeArray
    back: FromZero
    usual: FloatArray
    learnt: FromZero
    sums: Annotated[FloatArray, 0.0, 2]
    odd: FromZero
    like: FromZero
    now: FloatArray

    @property
    def in_step(self) -> MaskArray:
        """Return a mask of nodes whose watts move with those of the others."""
        own, others, both, count = self.together.T
        return np.asarray(
            (count >= _STEP_PERIODS) & (both > 0.0) & (both * both >= _IN_STEP**2 * own * others), dtype=np.bool_
        )

    def forget(self, where: MaskArray) -> "SiblingRatio":
        """Return it without what was learnt of some nodes."""
        return reset_where(self, filled(SiblingRatio, len(where)), where) if where.any() else self

    def after(self, period: WattsPeriod, groups: GroupArray, keys: MeterKeys) -> "SiblingRatio":
        """Add a period; `groups` numbers the jobs, `keys` are those of the nodes."""
        twins = self.twins.after(period.watts, keys)
        own_w = np.where(twins.copies | ~(period.watts > 0.0), np.nan, period.watts)
        # One that has changed keeps its place among the others: the median of a few jumps from one to the next.
        others_w = sibling_median(own_w * np.exp(-self.changed), groups, min_siblings=_MIN_SIBLINGS)
        follows = period.passed_s > 0.0
        own_step = np.log(own_w / self.own_w) if follows else np.full_like(own_w, np.nan)
        others_step = np.log(others_w / self.others_w) if follows else own_step
        after = replace(
            self,
            twins=twins,
            own_w=np.where(np.isfinite(own_w), own_w, self.own_w) if follows else own_w,
            others_w=np.where(np.isfinite(others_w), others_w, self.others_w) if follows else others_w,
            most_w=np.fmax(self.most_w, np.where(np.isfinite(others_w), others_w, 0.0)),
            together=_steps_added(self.together, own_step, others_step),
        )
        ratio = np.log(own_w / others_w)
        takes = (np.abs(others_step) < _STEADY) & (others_w >= _LOADED_RATIO * after.most_w) & np.isfinite(ratio)
        takes &= np.abs(ratio) < _OTHER_WORK
        return after.with_ratios(ratio, takes, period.now_ns, groups) if takes.any() else after

    def with_ratios(self, ratio: FloatArray, takes: MaskArray, now_ns: int, groups: GroupArray) -> "SiblingRatio":
        """Return it with the newest ratios of some nodes, and what they show."""
        after = self._followed(ratio, takes)
        learns = takes & (after.changed == 0.0)
        ring = np.where(learns[:, np.newaxis], np.column_stack((after.ring[:, 1:], ratio)), after.ring)
        after = replace(after, ring=ring, now=np.where(takes, ratio, after.now))
        in_step = after.in_step & takes
        known = np.isfinite(ring[:, -_LEAST]) & in_step & _share_a_course(in_step, takes, groups)
        if not known.any():
            return after
        return after.with_changes(known & learns, now_ns, groups).with_odd_ones(known, now_ns, groups)

    def _followed(self, ratio: FloatArray, takes: MaskArray) -> "SiblingRatio":
        """Return it without the changes that went back."""
        looked_at = takes & (self.changed != 0.0)
        if not looked_at.any():
            return self
        near = looked_at & (np.abs(ratio - self.base) < _BACK_PART * np.abs(self.changed))
        back = np.where(looked_at, np.where(near, self.back + 1.0, 0.0), self.back)
        over = back >= _BACK_PERIODS
        return replace(self, back=np.where(over, 0.0, back), changed=np.where(over, 0.0, self.changed))

    def with_changes(self, known: MaskArray, now_ns: int, groups: GroupArray) -> "SiblingRatio":
        """Return it with the nodes that left what they were: at once, or by little for long."""
        before, new = self.ring[:, :-_NEW], self.ring[:, -_NEW:]
        base, count = middle(before), np.isfinite(before).sum(axis=1)
        spread = _spread(before, base)
        shared = sibling_median(np.where(known, spread, np.nan), groups, min_siblings=_MIN_SIBLINGS)
        sd = np.maximum(np.fmax(spread, shared), _LEAST_SD)
        off = middle(new) - base
        error = _MEDIAN * sd * np.sqrt(_COLOUR / _NEW + _COLOUR / np.maximum(count, 1))
        others = MAD_TO_SD * sibling_median(np.where(known, np.abs(off), np.nan), groups, min_siblings=_MIN_SIBLINGS)
        one_side = (np.sign(new - base[:, np.newaxis]) == np.sign(off)[:, np.newaxis]).all(axis=1)
        at_once = known & one_side & (np.abs(off) > np.fmax(_ERRORS * error, _OTHERS * others))
        after = self._summed(known, sd)
        slow = middle(self.ring[:, -2 * _NEW :]) - self.usual
        by_sum = known & (after.sums > _SUM).any(axis=1)
        moved, base = np.where(at_once, off, slow), np.where(at_once, base, self.usual)
        begins = (at_once | by_sum) & (np.abs(moved) > _LEAST_CHANGE)
        return replace(
            after,
            base=np.where(begins, base, self.base),
            changed=np.where(begins, moved, self.changed),
            since_ns=np.where(begins, now_ns - _NEW * PERIOD_S * NS_PER_S, self.since_ns),
            back=np.where(begins, 0.0, self.back),
            sums=np.where(begins[:, np.newaxis], 0.0, after.sums),
        )

    def _summed(self, known: MaskArray, sd: FloatArray) -> "SiblingRatio":
        """Return it with the newest ratio in the cumulative sums, and in what is usual while these are low."""
        newest, usual = self.ring[:, -1], np.where(np.isnan(self.usual), middle(self.ring), self.usual)
        learnt = np.where(np.isnan(self.usual), np.isfinite(self.ring).sum(axis=1), self.learnt)
        error = sd * np.sqrt(1.0 + 1.0 / np.maximum(learnt, 1.0))
        off = np.clip((newest - usual) / error, -_MOST_STEP, _MOST_STEP)
        slack = np.maximum(_SLACK, _LEAST_SLACK / sd)
        sums = np.maximum(self.sums + np.column_stack((off, -off)) - slack[:, np.newaxis], 0.0)
        sums = np.where(known[:, np.newaxis], sums, self.sums)
        calm = known & (sums < _SUM / 3.0).all(axis=1)
        learnt = np.where(calm, learnt + 1.0, learnt)
        followed = usual + off * error / np.clip(learnt, 1.0, _MEMORY)
        return replace(
            self,
            usual=np.where(calm, followed, np.where(known, usual, self.usual)),
            learnt=np.where(known, learnt, self.learnt),
            sums=sums,
        )

    def with_odd_ones(self, known: MaskArray, now_ns: int, groups: GroupArray) -> "SiblingRatio":
        """Return it with how far nodes are off the others, where healthy ones are not."""
        level = np.where(self.changed != 0.0, self.now, middle(self.ring[:, -4:]))
        level = np.where(known, level, np.nan)
        centre = sibling_median(level, groups, min_siblings=_MIN_SIBLINGS)
        off = level - centre
        between = MAD_TO_SD * sibling_median(np.abs(off), groups, min_siblings=_MIN_SIBLINGS)
        spread = _spread(self.ring, middle(self.ring))
        within = sibling_median(np.where(known, spread, np.nan), groups, min_siblings=_MIN_SIBLINGS)
        sd = np.hypot(np.maximum(between, _LEAST_BETWEEN), _MEDIAN * within * np.sqrt(_COLOUR / 4.0))
        limit = np.maximum(_ODD_DEVIATIONS * sd, _LEAST_ODD) * np.where(self.odd != 0.0, _BACK_PART, 1.0)
        judged = np.isfinite(off) & np.isfinite(limit)
        odd = np.where(judged, np.where(np.abs(off) > limit, off, 0.0), self.odd)
        # One that was like the others for long enough has left them.
        left = (odd != 0.0) & (self.like >= _LIKE_PERIODS) & (self.changed == 0.0)
        moved = middle(self.ring[:, -_NEW:]) - self.usual
        left &= np.abs(moved) > _LEAST_ODD
        return replace(
            self,
            odd=odd,
            like=np.where(judged, np.where(odd == 0.0, self.like + 1.0, 0.0), self.like),
            base=np.where(left, self.usual, self.base),
            changed=np.where(left, moved, self.changed),
            since_ns=np.where(left, now_ns - _NEW * PERIOD_S * NS_PER_S, self.since_ns),
            back=np.where(left, 0.0, self.back),
        )


def _share_a_course(in_step: MaskArray, of: MaskArray, groups: GroupArray) -> MaskArray:
    """Return a mask of nodes in whose job most of those looked at, or many of them, move together."""
    size = max(int(groups.max(initial=0)) + 1, 1)
    hits, count = (np.bincount(groups, weights=mask, minlength=size) for mask in (in_step, of))
    part = hits / np.maximum(count, 1.0)
    return np.asarray(((part >= _TOGETHER_PART) | ((hits >= _MANY_TOGETHER) & (part > _MANY_PART)))[groups])


def _steps_added(together: FloatArray, own: FloatArray, others: FloatArray) -> FloatArray:
    """Return the fading sums with one more change of a node and of the others."""
    known = np.isfinite(own) & np.isfinite(others)
    own, others = np.where(known, own, 0.0), np.where(known, others, 0.0)
    fade = np.where(known, 1.0 - 1.0 / _STEP_MEMORY, 1.0)
    added = np.column_stack((own * own, others * others, own * others, known.astype(np.float64)))
    return np.asarray(together * fade[:, np.newaxis] + added, dtype=np.float64)


def _spread(rows: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the deviation of the known values of each row about its middle.

    By their median, and with enough of them by their ninth decile: nodes whose loads dip at different times have long
    tails.
    """
    off = np.sort(np.abs(rows - centre[:, np.newaxis]), axis=1)
    count = np.isfinite(off).sum(axis=1)
    at = np.clip(np.ceil(_TAIL * count).astype(np.intp) - 1, 0, rows.shape[1] - 1)
    tail = np.where(count >= _TAIL_LEAST, off[np.arange(len(off)), at] / _TAIL_SD, np.nan)
    return np.fmax(MAD_TO_SD * middle(off), tail)


def middle(rows: FloatArray) -> FloatArray:
    """Return the median of the known values of each row ``(n_nodes, n)``, NaN where none is known."""
    ranked = np.sort(rows, axis=1)  # NaN sorts last
    count = np.isfinite(ranked).sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.maximum(count, 1) // 2
    at = np.arange(len(rows))
    return np.asarray(np.where(count > 0, (ranked[at, low] + ranked[at, high]) / 2.0, np.nan), dtype=np.float64)
