"""Sums over the last milliseconds of something that is known millisecond by millisecond."""

import numpy as np
import numpy.typing as npt

from telemetry.frames import FloatArray

IndexArray = npt.NDArray[np.int64]
_ROOM_MS = 4096  # how much is kept before what is old is thrown away


class WindowSums:
    """Running sums of several sources; a sum over a window costs two look-ups, however long its window.

    Parameters
    ----------
    reach_ms
        How far back a window may begin.

    Attributes
    ----------
    width
        The number of sources.
    """

    def __init__(self, n_sources: int, reach_ms: int) -> None:
        self.width = n_sources
        self._reach = reach_ms + 1
        self._sums = np.zeros((self._reach + _ROOM_MS, n_sources))
        self._flat = self._sums.reshape(-1)
        self._end = self._start = self._reach

    def begin(self, values: FloatArray) -> None:
        """Process one row ``(n_sources,)`` for all time so far."""
        self._sums[: self._reach] = np.arange(1, self._reach + 1)[:, None] * values
        self._end = self._start = self._reach

    def push(self, block: FloatArray) -> None:
        """Process the next milliseconds, shape ``(n_ms, n_sources)``."""
        n_ms = len(block)
        if self._end + n_ms > len(self._sums):
            kept = self._sums[self._end - self._reach : self._end]
            self._sums[: self._reach] = kept - kept[0]
            self._end = self._reach
        self._start, end = self._end, self._end + n_ms
        sums = self._sums[self._start : end]
        block.cumsum(axis=0, out=sums)
        sums += self._sums[self._start - 1]
        self._end = end

    def totals(self, bounds: IndexArray) -> FloatArray:
        """Return the sums of some windows, shape ``(n_windows,)``.

        `bounds` are the last millisecond of each window and the last one before it, shape ``(2, n_windows)``, counted
        from the start of the last block, times `width`, plus the number of the source.
        """
        sums = self._flat.take(bounds + self._start * self.width)
        total: FloatArray = sums[0] - sums[1]
        return total
