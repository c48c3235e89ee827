"""Heartbeat of a job: duration of a step, and time since the last one."""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# heuristic: the median of so many last steps rides over a checkpoint, and this many must be seen before it counts.
_REMEMBERED = 5
_MIN_BEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heartbeat:
    """Steps reported by each entity's job; the first axis of each array is the entity.

    `intervals_s` holds the last steps' lengths, NaN where there were fewer; `moved` marks a step that just ended.
    """

    steps: FloatArray
    stalled_s: FloatArray
    beats: FloatArray
    intervals_s: FloatArray
    moved: MaskArray
    answered: MaskArray

    @staticmethod
    def silent(n_entities: int) -> "Heartbeat":
        """Return the state before any step."""
        unknown, no = np.full(n_entities, np.nan), np.zeros(n_entities, dtype=np.bool_)
        return Heartbeat(
            steps=unknown,
            stalled_s=np.zeros(n_entities),
            beats=np.zeros(n_entities),
            intervals_s=np.full((n_entities, _REMEMBERED), np.nan),
            moved=no,
            answered=no,
        )

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
