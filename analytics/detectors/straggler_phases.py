"""Phases of each GPU's power, high or low, compared with those of most of its siblings.

A rank that works longer in each step begins with its siblings and ends after them. A middle that is taken too low, as
after a change of load, shows a GPU high both too early and too long, the more so the longer its sensor averages; a
sensor that lags shows it late at both. So rows in which a GPU differs are counted apart for begins and for ends.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from analytics.connectivity import GroupArray, sibling_median, sums_of_others
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.seconds import SignalTally
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: a swing of a quarter of the high level is a phase; a training step swings by a third and more (0.35 of the
# compute power while gradients are exchanged, in simulation).
_MIN_SWING = 0.25
# heuristic: a rank that never waits swings between computing and exchanging alone, by a seventh of its high level and
# more: five times the 3 % by which readings of a constant load scatter. Its middle lies a twelfth of that level higher.
_MIN_SWING_OF_LATE, _HIGHER_MIDDLE = 0.15, 0.08


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerSwing:
    """The high and the low level of each GPU's power of late, shape ``(n_gpus,)``; NaN before they are known."""

    high_w: FloatArray
    low_w: FloatArray

    def after(self, power: SignalTally, *, passed_s: float, memory_s: float) -> "PowerSwing":
        """Return the levels a second later: new extremes at once, old ones fade towards the mean."""
        seen = power.count > 0
        if not seen.any():
            return self
        eased = min(passed_s / memory_s, 1.0)
        mean_w = np.where(seen, power.mean, np.nan)
        high_w = np.fmax(np.where(seen, power.high, np.nan), self.high_w + (mean_w - self.high_w) * eased)
        low_w = np.fmin(np.where(seen, power.low, np.nan), self.low_w + (mean_w - self.low_w) * eased)
        return PowerSwing(high_w=np.where(seen, high_w, self.high_w), low_w=np.where(seen, low_w, self.low_w))

    @property
    def middle_w(self) -> FloatArray:
        """Return the level between high and low; NaN where power does not swing, so that there are no phases."""
        return self._middle_w(_MIN_SWING)

    def middle_beside_w(self, groups: GroupArray) -> FloatArray:
        """Return the level above which each GPU computes, comparable among the GPUs of a node.

        A rank that waits for another draws less than one that exchanges data. Once one rank holds up the rest, the
        others show three levels and it shows the upper two: its middle is above their waits and above their exchanges.
        Theirs is taken to be as high as its then, as a share of the high level, so that all ranks compute or do not.
        """
        own_w = self.middle_w
        theirs = sibling_median(own_w / self.high_w, groups, min_siblings=MIN_SIBLINGS)
        ratio = self._middle_w(_MIN_SWING_OF_LATE) / self.high_w
        higher = ratio > theirs + _HIGHER_MIDDLE
        if not higher.any():
            return own_w
        highest = np.full(groups.max() + 1, -np.inf)
        np.maximum.at(highest, groups[higher], ratio[higher])
        shared = highest[groups]
        takes = np.isfinite(shared) & (higher | ~np.isnan(own_w))
        return np.where(takes, shared * self.high_w, own_w)

    def _middle_w(self, least_swing: float) -> FloatArray:
        swings = self.high_w - self.low_w > least_swing * self.high_w
        return np.where(swings, (self.high_w + self.low_w) / 2, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseCounts:
    """Phases of each GPU compared with those of most siblings, as counts of rows, shape ``(n_gpus,)``.

    `begins_early` and `ends_late` count rows in which it alone is high, `begins_late` and `ends_early` those in which
    it alone is low. `steps` counts rows in which it begins to compute, `updates` those with another value of its
    sensor.
    """

    seen: FromZero
    both: FromZero
    begins_early: FromZero
    begins_late: FromZero
    ends_early: FromZero
    ends_late: FromZero
    steps: FromZero
    updates: FromZero

    @staticmethod
    def start(n_gpus: int) -> "PhaseCounts":
        """Return no counts; quicker than `filled`, as every second begins with some."""
        return PhaseCounts(**dict.fromkeys((field.name for field in fields(PhaseCounts)), np.zeros(n_gpus)))

    def plus(self, more: "PhaseCounts", *, fade: float = 1.0) -> "PhaseCounts":
        """Return these counts faded, and others added."""
        names = (field.name for field in fields(self))
        return PhaseCounts(**{name: getattr(self, name) * fade + getattr(more, name) for name in names})

    @property
    def late_ratio(self) -> FloatArray:
        """Return the share of rows in which it computes while most siblings do not; NaN where nothing was seen."""
        return self._share(self.begins_early + self.ends_late)

    @property
    def early_ratio(self) -> FloatArray:
        """Return the share of rows in which it does not compute while most siblings do."""
        return self._share(self.early)

    def where(self, kept: MaskArray) -> "PhaseCounts":
        """Return these counts of some GPUs, and none of the others."""
        return PhaseCounts(**{field.name: np.where(kept, getattr(self, field.name), 0.0) for field in fields(self)})

    @property
    def early(self) -> FloatArray:
        """Return the number of rows in which it does not compute while most siblings do."""
        return self.begins_late + self.ends_early

    @property
    def early_by_chance(self) -> FloatArray:
        """Return in how many rows it would be low while most siblings compute if it had nothing to do with them."""
        theirs, own_low = self.both + self.early, self.seen - self.both - (self.begins_early + self.ends_late)
        return theirs * own_low / np.maximum(self.seen, 1.0)

    @property
    def lateness(self) -> FloatArray:
        """Return the share of rows by which it works longer than most siblings, NaN where nothing was seen.

        A begin that is up to half an update early may be the phase of the sensor, which shows the end as much earlier.
        One that is earlier than that is a middle that was taken too low, which shows the end as much later.
        """
        end, begin = self._share(self.ends_late - self.ends_early), self._share(self.begins_early - self.begins_late)
        counted = self.updates > 0
        update = np.where(counted, self.steps / np.where(counted, self.updates, 1.0), np.inf)
        return end + np.minimum(begin, update - begin)

    @property
    def alike_ratio(self) -> FloatArray:
        """Return how alike its phases are to most siblings': time in which both compute over time in which either does.

        The same is made of waiting, and the lower of the two is given: independent loads that are mostly high, or
        mostly low, agree most of the time and yet share few of their rare phases.
        """
        apart = self.begins_early + self.begins_late + self.ends_early + self.ends_late
        neither = self.seen - self.both - apart
        computing, waiting = self.both + apart, neither + apart
        usable = (computing >= 1) & (waiting >= 1)
        high = self.both / np.where(usable, computing, 1.0)
        low = neither / np.where(usable, waiting, 1.0)
        return np.where(usable, np.minimum(high, low), np.nan)

    def _share(self, count: FloatArray) -> FloatArray:
        usable = self.seen >= 1
        return np.where(usable, count / np.where(usable, self.seen, 1.0), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningPhases:
    """Counts of the running second and the order of phases up to now, shape ``(n_gpus,)``.

    `rested` marks GPUs that were low since most siblings were high last, `worked` the reverse. `waited_s` is how long
    ago a GPU was last seen to compute, `worked_s` how long ago not to.
    """

    counts: PhaseCounts
    rested: MaskArray
    worked: MaskArray
    waited_s: FromZero
    worked_s: FromZero

    def with_updates(self, power_w: FloatArray, middle_w: FloatArray) -> "RunningPhases":
        """Count the updates of each sensor, and the steps that it shows, between rows of shape ``(n_rows, n_gpus)``.

        `middle_w` ``(n_gpus,)`` is the level above which a GPU computes. A row without power shows neither.
        """
        moved_w = np.diff(power_w, axis=0)
        begins = (power_w[1:] > middle_w) & (power_w[:-1] <= middle_w)
        counts = replace(
            self.counts,
            updates=self.counts.updates + (np.isfinite(moved_w) & (moved_w != 0.0)).sum(axis=0),
            steps=self.counts.steps + begins.sum(axis=0),
        )
        return replace(self, counts=counts)

    def add(self, high: MaskArray, known: MaskArray, groups: GroupArray) -> "RunningPhases":
        """Count rows of shape ``(n_rows, n_gpus)``; nothing where fewer than two siblings are known.

        A tie among the siblings counts for none: half of them have ended and half have not.
        """
        if not known.any():
            return self
        up, counts = high & known, self.counts
        n_others, n_up = np.split(sums_of_others(np.concatenate((known, up)).astype(np.float64), groups), 2)
        usable = known & (n_others >= 2) & (2 * n_up != n_others)
        they_compute = usable & (2 * n_up > n_others)
        they_wait = usable & ~they_compute
        both, alone_high, alone_low = they_compute & up, they_wait & up, they_compute & ~up
        rested = _since(they_wait & ~up, they_compute, self.rested)
        worked = _since(both, they_wait, self.worked)
        counts = replace(
            counts,
            seen=counts.seen + usable.sum(axis=0),
            both=counts.both + both.sum(axis=0),
            begins_early=counts.begins_early + (alone_high & rested).sum(axis=0),
            begins_late=counts.begins_late + (alone_low & ~worked).sum(axis=0),
            ends_early=counts.ends_early + (alone_low & worked).sum(axis=0),
            ends_late=counts.ends_late + (alone_high & ~rested).sum(axis=0),
        )
        return RunningPhases(
            counts=counts,
            rested=rested[-1],
            worked=worked[-1],
            waited_s=np.where(up.any(axis=0), 0.0, self.waited_s),
            worked_s=np.where((known & ~high).any(axis=0), 0.0, self.worked_s),
        )

    def next_second(self, *, passed_s: float) -> "RunningPhases":
        """Return the order of phases a while later, and no counts."""
        return replace(
            self,
            counts=PhaseCounts.start(len(self.rested)),
            waited_s=self.waited_s + passed_s,
            worked_s=self.worked_s + passed_s,
        )


def _since(event: MaskArray, reset: MaskArray, before: MaskArray) -> MaskArray:
    """Return for each row ``(n_rows, n_gpus)`` whether `event` occurred since the last `reset`.

    `before` ``(n_gpus,)`` is the same ahead of the first row. No row is both.
    """
    place = np.arange(1, len(event) + 1)[:, np.newaxis]
    last_event = np.maximum.accumulate(np.where(event, place, np.where(before, 0, -1)), axis=0)
    last_reset = np.maximum.accumulate(np.where(reset, place, 0), axis=0)
    found: MaskArray = last_event >= last_reset
    return found
