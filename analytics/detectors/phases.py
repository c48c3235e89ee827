"""Phases of a synchronous job as power shows them: high while a rank computes, low while it waits or exchanges."""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.seconds import Tally, running_sum
from telemetry.frames import FloatArray, MaskArray

# heuristic: a swing of a quarter of the high level is a phase; a training step swings by a third and more (0.35 of the
# compute power while gradients are exchanged, in simulation).
_MIN_SWING = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swing:
    """The high and the low level of each GPU's power of late, shape ``(n_gpus,)``; NaN before they are known."""

    high_w: FloatArray
    low_w: FloatArray

    @staticmethod
    def unknown(n_gpus: int) -> "Swing":
        """Return the state before the first second."""
        nothing = np.full(n_gpus, np.nan)
        return Swing(high_w=nothing, low_w=nothing)

    def after(self, power: Tally, *, passed_s: float, memory_s: float) -> "Swing":
        """Return the levels a second later: new extremes at once, old ones fade towards the mean."""
        seen = power.count > 0
        if not seen.any():
            return self
        eased = min(passed_s / memory_s, 1.0)
        mean_w = np.where(seen, power.mean, np.nan)
        high_w = np.fmax(np.where(seen, power.high, np.nan), self.high_w + (mean_w - self.high_w) * eased)
        low_w = np.fmin(np.where(seen, power.low, np.nan), self.low_w + (mean_w - self.low_w) * eased)
        return Swing(high_w=np.where(seen, high_w, self.high_w), low_w=np.where(seen, low_w, self.low_w))

    @property
    def middle_w(self) -> FloatArray:
        """Return the level between high and low; NaN where power does not swing, so that there are no phases."""
        swings = self.high_w - self.low_w > _MIN_SWING * self.high_w
        return np.where(swings, (self.high_w + self.low_w) / 2, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phases:
    """Phases of each GPU compared with those of most siblings, as fading counts of rows, shape ``(n_gpus,)``."""

    seen: FloatArray
    both: FloatArray
    late: FloatArray
    early: FloatArray
    lasted_s: FloatArray

    @staticmethod
    def none(n_gpus: int) -> "Phases":
        """Return the state before the first row."""
        zero = np.zeros(n_gpus)
        return Phases(seen=zero, both=zero, late=zero, early=zero, lasted_s=zero)

    def add(self, high: MaskArray, known: MaskArray, groups: GroupArray) -> "Phases":
        """Count rows of shape ``(n_rows, n_gpus)``; nothing where fewer than two siblings are known.

        A tie among the siblings counts for none: half of them have ended and half have not.
        """
        if not known.any():
            return self
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        place = np.empty(len(groups), dtype=np.intp)
        place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(groups)))
        up = high & known

        def others(mask: MaskArray) -> FloatArray:
            sums: FloatArray = np.add.reduceat(mask[:, order].astype(np.float64), starts, axis=1)
            return sums[:, place] - mask

        n_others, n_up = others(known), others(up)
        usable = known & (n_others >= 2) & (2 * n_up != n_others)
        they_compute = 2 * n_up > n_others
        return replace(
            self,
            seen=running_sum(self.seen, usable.astype(np.float64)),
            both=running_sum(self.both, (usable & up & they_compute).astype(np.float64)),
            late=running_sum(self.late, (usable & up & ~they_compute).astype(np.float64)),
            early=running_sum(self.early, (usable & ~up & they_compute).astype(np.float64)),
        )

    def faded(self, fade: float, *, passed_s: float) -> "Phases":
        """Return the counts a while later; `lasted_s` runs while any phase is seen."""
        some = self.seen > 0
        return Phases(
            seen=self.seen * fade,
            both=self.both * fade,
            late=self.late * fade,
            early=self.early * fade,
            lasted_s=np.where(some, self.lasted_s + passed_s, 0.0),
        )

    @property
    def late_ratio(self) -> FloatArray:
        """Return the share of rows in which it computes while most siblings do not; NaN where nothing was seen."""
        return self._share(self.late)

    @property
    def early_ratio(self) -> FloatArray:
        """Return the share of rows in which it does not compute while most siblings do."""
        return self._share(self.early)

    @property
    def alike_ratio(self) -> FloatArray:
        """Return how alike its phases are to most siblings': time in which both compute over time in which either does.

        The same is made of waiting, and the lower of the two is given: independent loads that are mostly high, or
        mostly low, agree most of the time and yet share few of their rare phases.
        """
        apart = self.late + self.early
        neither = self.seen - self.both - apart
        computing, waiting = self.both + apart, neither + apart
        usable = (computing >= 1) & (waiting >= 1)
        high = self.both / np.where(usable, computing, 1.0)
        low = neither / np.where(usable, waiting, 1.0)
        return np.where(usable, np.minimum(high, low), np.nan)

    def _share(self, count: FloatArray) -> FloatArray:
        usable = self.seen >= 1
        return np.where(usable, count / np.where(usable, self.seen, 1.0), np.nan)
