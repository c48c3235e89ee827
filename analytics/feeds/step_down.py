"""A step down in what a node draws, of the size of one GPU's part of its load, that stays.

Judged by means of five seconds: a minute of load that is steady for what it does, then twenty seconds that lie lower
and are as steady, and as long again at that level. Loads that end fall further, dips come back, and what decays has no
step.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import IndexArray
from analytics.feeds.by_load import with_values
from analytics.feeds.levels import BASE, PERIOD_S, RING, WINDOW, Levels, noise_of
from analytics.feeds.node_watts import WattsPeriod
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# heuristic: 438 recordings of healthy machines (143 hours) have 8 steps that pass all of these, and of GPUs that were
# taken out of the same recordings 93 to 98 % are found.
_LOADED_RATIO, _DEVIATIONS, _SHARP, _STABLE_PART = 0.6, 4.0, 0.35, 0.8
# A node has 3 to 16 GPUs where their number is not known; what is given is their part of the load above idling.
_LEAST_PART, _MOST_PART = 0.055, 0.4
# heuristic: parts of one GPU where their number is known; a job on some of them has fewer, each with a larger part.
_OWN_LEAST, _OWN_MOST = 0.6, 1.3
# heuristic: phases of a job move what a node draws by some per cent.
_LEAST_RATIO, _MOST_RATIO = 0.03, 0.35
# heuristic: a node idles where it drew no less than that before, unless it has drawn so for ten minutes; a level that
# was there for a quarter of a minute is one of the load.
_OVER_IDLE_RATIO, _LONG_PERIODS, _VISITS = 1.15, 120.0, 3.0
# heuristic: as long again as the window, within half of the step.
HOLD_PERIODS, _HOLD_PART = 4.0, 0.5
# heuristic: back by three fifths, or down by a second step and more, is another load.
_BACK_PART, _FURTHER = 0.4, 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fall:
    """Nodes whose newest means are all lower than those before, by place; their means and the level before."""

    rows: IndexArray
    ring: FloatArray
    base_w: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepDown:
    """Step of each node, shape ``(n_nodes,)``; NaN where none is looked at.

    `base_w` is what it drew before, `level_w` what it draws since `since_ns`, `size_w` is the step and `part` its share
    of what was above idling. `held` counts means at that level, `stays` marks steps that stayed.
    """

    base_w: FloatArray
    level_w: FloatArray
    size_w: FloatArray
    part: FloatArray
    held: FromZero
    since_ns: TimeArray
    stays: MaskArray

    def after(self, levels: Levels, period: WattsPeriod, n_gpus: FloatArray) -> tuple["StepDown", Levels]:
        """Judge the newest mean; `n_gpus` is 0 where their number is not known."""
        step = self._followed(period)
        ring = levels.ring
        # Cheap: the newest means are all lower than those before the step.
        may = period.is_new & levels.full & np.isnan(step.base_w)
        rows = np.flatnonzero(may)
        if not rows.size:
            return step, levels
        own = ring[rows]
        base_w = np.median(own[:, -WINDOW - BASE : -WINDOW], axis=1)
        levels = levels.with_most(rows, base_w)
        falls = (own[:, -WINDOW:].max(axis=1) < own[:, -WINDOW - 3 : -WINDOW - 1].min(axis=1)) & (base_w > 0.0)
        rows, own, base_w = rows[falls], own[falls], base_w[falls]
        if not rows.size:
            return step, levels
        return step.begun(_Fall(rows=rows, ring=own, base_w=base_w), levels, period.now_ns, n_gpus), levels

    def without(self, where: MaskArray) -> "StepDown":
        """Return the steps without those that something else explains."""
        return replace(
            self, base_w=np.where(where, np.nan, self.base_w), stays=np.asarray(self.stays & ~where, dtype=np.bool_)
        )

    def _followed(self, period: WattsPeriod) -> "StepDown":
        """Return the steps with the newest mean at their level, and without those that ended."""
        looked_at = np.isfinite(self.base_w) & period.is_new
        if not looked_at.any():
            return self
        watts, step_w = period.watts, self.size_w
        at_level = np.abs(watts - self.level_w) < _HOLD_PART * step_w
        over = (watts > self.base_w - _BACK_PART * step_w) | (watts < self.base_w - _FURTHER * step_w)
        ends = looked_at & np.where(self.stays, over, ~at_level)
        held = np.where(looked_at & at_level, self.held + 1.0, self.held)
        return replace(
            self,
            base_w=np.where(ends, np.nan, self.base_w),
            held=np.where(ends, 0.0, held),
            stays=np.asarray(~ends & (self.stays | (held >= HOLD_PERIODS)), dtype=np.bool_),
        )

    def begun(self, fall: "_Fall", levels: Levels, now_ns: int, n_gpus: FloatArray) -> "StepDown":
        """Return the steps with those of the falls that are steps of one GPU."""
        rows, own, base_w = fall.rows, fall.ring, fall.base_w
        window, before = own[:, -WINDOW:], own[:, -WINDOW - BASE : -WINDOW]
        level_w = np.median(window, axis=1)
        step_w = base_w - level_w
        noise_w = np.maximum(noise_of(before, base_w), noise_of(window, level_w))
        part = step_w / (base_w - levels.idle_w(base_w, rows))
        near = _SHARP * step_w[:, np.newaxis]
        middle = base_w[:, np.newaxis]
        sharp = (np.abs(window - level_w[:, np.newaxis]) <= near).all(axis=1)
        sharp &= (np.abs(before[:, -3:-1] - middle) <= near).all(axis=1)
        stable = np.mean(np.abs(own[:, : RING - WINDOW - 1] - middle) < near, axis=1) >= _STABLE_PART
        ratio = step_w / base_w
        size = (ratio > _LEAST_RATIO) & (ratio < _MOST_RATIO) & _is_one_gpu(part, n_gpus[rows])
        loaded = base_w >= _LOADED_RATIO * levels.most_w[rows]
        loaded &= (base_w >= _OVER_IDLE_RATIO * levels.least_w[rows]) | (levels.seen[rows] >= _LONG_PERIODS)
        begins = sharp & stable & size & loaded & (step_w >= _DEVIATIONS * noise_w)
        # A load that was at this level before has two, and changes between them.
        begins &= levels.was_at(rows, level_w) < _VISITS
        at = rows[begins]
        return replace(
            self,
            base_w=with_values(self.base_w, at, base_w[begins]),
            level_w=with_values(self.level_w, at, level_w[begins]),
            size_w=with_values(self.size_w, at, step_w[begins]),
            part=with_values(self.part, at, part[begins]),
            held=with_values(self.held, at, 0.0),
            since_ns=with_values(self.since_ns, at, now_ns - WINDOW * PERIOD_S * NS_PER_S),
        )


def _is_one_gpu(part: FloatArray, n_gpus: FloatArray) -> MaskArray:
    """Return a mask of steps of the size of one GPU, of any number of them where it is 0."""
    known = n_gpus > 0.0
    count = np.where(known, n_gpus, 1.0)
    least = np.where(known, _OWN_LEAST / count, _LEAST_PART)
    most = np.where(known, np.maximum(_OWN_MOST / count, _MOST_PART), _MOST_PART)
    return np.asarray((part > least) & (part < most), dtype=np.bool_)
