"""Signs of a hang: a job that completes no step, and a GPU that spins.

A GPU spins at full utilisation and a constant fraction of the power that it computes with.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.bus_limits import HangLimits
from analytics.detectors.seconds import SignalTally
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: the median of so many last steps rides over a checkpoint, and this many must be seen before it counts.
_REMEMBERED = 5
_MIN_BEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heartbeat:
    """Steps reported by each entity's job; the first axis of each array is the entity.

    `intervals_s` holds the last steps' lengths, NaN where there were fewer; `moved` marks a step that just ended.
    """

    steps: FloatArray
    stalled_s: FromZero
    beats: FromZero
    intervals_s: Annotated[FloatArray, np.nan, _REMEMBERED]
    moved: MaskArray
    answered: MaskArray

    @property
    def known(self) -> MaskArray:
        """Mask of entities whose job reports steps, and enough of them to know their duration."""
        return self.answered & (self.beats >= _MIN_BEATS)

    def median_s(self, index: int) -> float:
        """Return the median duration of one entity's last steps, NaN if unknown."""
        known_s = self.intervals_s[index][~np.isnan(self.intervals_s[index])]
        return float(np.median(known_s)) if len(known_s) else float("nan")

    def stalled(self, where: MaskArray, *, at_least_s: float, steps: float) -> MaskArray:
        """Return a mask of entities without a step for so long and for so many median steps, among `where`."""
        stalled: MaskArray = where & self.known & (self.stalled_s > at_least_s)
        for index in np.flatnonzero(stalled).tolist():
            stalled[index] = not self.stalled_s[index] <= steps * self.median_s(index)
        return stalled


def after_steps(before: Heartbeat, steps: FloatArray, passed_s: float) -> Heartbeat:
    """Return the state a while later, the counter then standing at `steps`; NaN where no job reports any.

    A counter that goes back belongs to another job: known step durations are dropped.
    """
    answered = ~np.isnan(steps)
    if not answered.any() and not before.answered.any():
        return before
    grew = steps - before.steps
    waited_s = before.stalled_s + passed_s
    moved, other = grew > 0, grew < 0
    beats = np.where(other | ~answered, 0.0, before.beats + moved)
    # The first interval began before the first row.
    timed = moved & (before.beats > 0) & (waited_s > 0)
    intervals_s = before.intervals_s
    if timed.any():
        who = np.flatnonzero(timed)
        intervals_s = intervals_s.copy()
        intervals_s[who, before.beats[who].astype(np.intp) % _REMEMBERED] = waited_s[who] / grew[who]
    reset = other | ~answered
    if reset.any():
        intervals_s = np.where(reset[:, np.newaxis], np.nan, intervals_s)
    return replace(
        before,
        steps=np.where(answered, steps, np.nan),
        stalled_s=np.where(moved | other | ~answered, 0.0, waited_s),
        beats=beats,
        intervals_s=intervals_s,
        moved=moved,
        answered=answered,
    )


# heuristic: seconds of work until the power of the compute phases counts as known, and how long it is remembered.
_LEARN_S = 20.0
_MEMORY_S = 120.0
# Below this utilisation a GPU does not compute, and its power does not show its compute phases.
_WORKING_RATIO = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spin:
    """Spin state of each GPU, arrays of shape ``(n_gpus,)``.

    `high_w` is the power of its compute phases after `worked_s` of work; it is learnt from work alone, never from what
    looks like spinning. The sums run over the seconds of this spin.
    """

    high_w: FloatArray
    worked_s: FromZero
    lasted_s: FromZero
    seconds: FromZero
    total_w: FromZero
    square_w2: FromZero
    memory_bytes: FloatArray

    @property
    def compute_w(self) -> FloatArray:
        """Return the power of the compute phases, NaN until it is known."""
        return np.where(self.worked_s >= _LEARN_S, self.high_w, np.nan)

    @property
    def power_w(self) -> FloatArray:
        """Return the mean power of this spin, NaN where none goes on."""
        return np.where(self.seconds > 0, self.total_w / np.maximum(self.seconds, 1), np.nan)

    @property
    def spread_ratio(self) -> FloatArray:
        """Return the standard deviation of this spin's power over its mean."""
        return _spread(self.seconds, self.total_w, self.square_w2)


def after_second(
    before: Spin,
    power: SignalTally,
    util: FloatArray,
    memory_bytes: FloatArray,
    *,
    passed_s: float,
    progress: MaskArray,
    limits: HangLimits,
) -> Spin:
    """Return the state a second later.

    Parameters
    ----------
    util
        The lowest utilisation of that second; NaN, as NaN power, neither ends nor lengthens a spin.
    progress
        Where a step ended: work, at whatever power.
    """
    mean_w = power.mean
    before = _worked(before, power, util, passed_s=passed_s, progress=progress, limits=limits)
    flat = (mean_w < limits.power_ratio * before.compute_w) & (util >= limits.util_ratio) & ~progress
    moved = np.abs(memory_bytes - before.memory_bytes) > limits.memory_ratio * before.memory_bytes
    flat &= ~moved
    seconds = before.seconds + 1
    total_w, square_w2 = before.total_w + mean_w, before.square_w2 + power.mean_square
    flat &= ~(_spread(seconds, total_w, square_w2) > limits.spread_ratio)
    unseen = np.isnan(mean_w) | np.isnan(util)
    keep = unseen & ~progress

    def carried(grown: FloatArray, held: FloatArray) -> FloatArray:
        return np.where(flat, grown, np.where(keep, held, 0.0))

    return Spin(
        high_w=before.high_w,
        worked_s=before.worked_s,
        lasted_s=carried(before.lasted_s + passed_s, before.lasted_s),
        seconds=carried(seconds, before.seconds),
        total_w=carried(total_w, before.total_w),
        square_w2=carried(square_w2, before.square_w2),
        # Memory in use is held against what it was when the spin began, or is by now where none goes on.
        memory_bytes=np.where(
            (flat & (before.lasted_s > 0) & ~np.isnan(before.memory_bytes)) | np.isnan(memory_bytes),
            before.memory_bytes,
            memory_bytes,
        ),
    )


def _worked(
    before: Spin, power: SignalTally, util: FloatArray, *, passed_s: float, progress: MaskArray, limits: HangLimits
) -> Spin:
    """Learn the power of the compute phases from a second of work."""
    seen = power.count > 0
    peak_w = np.where(seen, power.high, np.nan)
    first = np.isnan(before.high_w)
    busy = seen & (util >= _WORKING_RATIO)
    working = busy & (progress | first | (peak_w > limits.power_ratio * before.high_w))
    if not working.any():
        return before
    eased_w = before.high_w + (power.mean - before.high_w) * min(passed_s / _MEMORY_S, 1.0)
    high_w = np.where(working, np.fmax(peak_w, eased_w), before.high_w)
    return Spin(
        high_w=high_w,
        worked_s=np.where(working, before.worked_s + passed_s, before.worked_s),
        lasted_s=before.lasted_s,
        seconds=before.seconds,
        total_w=before.total_w,
        square_w2=before.square_w2,
        memory_bytes=before.memory_bytes,
    )


def _spread(seconds: FloatArray, total: FloatArray, square: FloatArray) -> FloatArray:
    count = np.maximum(seconds, 1)
    mean = total / count
    variance = np.maximum(square / count - mean * mean, 0.0)
    usable = mean > 0
    return np.where(usable, np.sqrt(variance) / np.where(usable, mean, 1.0), 0.0)
