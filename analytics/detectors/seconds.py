"""Rows grouped in whole seconds, for detectors that judge once a second.

Boards of different phase give many rows a second; one set of array operations a second serves them all. Sums run row
by row from the sums before, so that a frame in two parts gives the same numbers as one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, TimeArray

# heuristic: seconds further apart than this leave a gap, as rows do (`condition.GAP_NS`).
MAX_GAP_S = 5


def stretches(
    time_ns: TimeArray, open_second: int | None, *, every_s: int = 1
) -> Iterator[tuple[int, slice, int | None]]:
    """Yield the second and the rows of each stretch of rows in one second, and when they ended the one before.

    That time is None where `open_second` continues, or at the very first row. With `every_s` in so many seconds, which
    are counted in that unit then.
    """
    if not len(time_ns):
        return
    seconds = time_ns // (every_s * NS_PER_S)
    cuts = [0, *(np.flatnonzero(np.diff(seconds)) + 1).tolist(), len(time_ns)]
    for start, stop in pairwise(cuts):
        second = int(seconds[start])
        yield second, slice(start, stop), None if open_second in (None, second) else int(time_ns[start])
        open_second = second


def passed_s(before: int, after: int, *, every_s: int = 1) -> int:
    """Return the seconds from one to the other, 0 across a gap or where the clock was set back."""
    apart = after - before
    return apart * every_s if 0 < apart <= max(MAX_GAP_S // every_s, 1) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalTally:
    """Statistics of one signal within a second, arrays of shape ``(n_entities,)``; NaN rows do not count.

    `low` and `high` are infinite the wrong way round where nothing was seen.
    """

    count: FloatArray
    total: FloatArray
    square: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def start(n_entities: int) -> "SignalTally":
        """Return the tally before the first row; quicker than `filled`, as every second begins with some."""
        zero, high = np.zeros(n_entities), np.full(n_entities, -np.inf)
        return SignalTally(count=zero, total=zero, square=zero, low=-high, high=high)

    def add(self, rows: FloatArray) -> "SignalTally":
        """Count rows of shape ``(n_rows, n_entities)``."""
        known = np.isfinite(rows)
        values = np.where(known, rows, 0.0)
        return SignalTally(
            count=self.count + known.sum(axis=0),
            total=running_sum(self.total, values),
            square=running_sum(self.square, values * values),
            low=np.minimum(self.low, np.where(known, rows, np.inf).min(axis=0)),
            high=np.maximum(self.high, np.where(known, rows, -np.inf).max(axis=0)),
        )

    @property
    def mean(self) -> FloatArray:
        """Return the mean, NaN where nothing was seen."""
        return np.where(self.count > 0, self.total / np.maximum(self.count, 1), np.nan)

    @property
    def mean_square(self) -> FloatArray:
        """Return the mean of the squares, NaN where nothing was seen."""
        return np.where(self.count > 0, self.square / np.maximum(self.count, 1), np.nan)


def running_sum(before: FloatArray, rows: FloatArray) -> FloatArray:
    """Return `before` plus all rows, added one by one: the same result however the rows are split."""
    if len(rows) == 1:
        added: FloatArray = before + rows[0]
        return added
    summed: FloatArray = np.add.accumulate(np.concatenate([before[np.newaxis], rows]), axis=0)[-1]
    return summed


def newest(before: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the last known value of each entity; `before` where the rows have none."""
    known = np.isfinite(rows)
    last = known[-1]
    if last.all():
        row: FloatArray = rows[-1].copy()
        return row
    if len(rows) == 1:
        held: FloatArray = np.where(last, rows[0], before)
        return held
    places = np.where(known, np.arange(len(rows))[:, np.newaxis], -1).max(axis=0)
    picked: FloatArray = np.take_along_axis(rows, np.maximum(places, 0)[np.newaxis], axis=0)[0]
    known_last: FloatArray = np.where(places >= 0, picked, before)
    return known_last
