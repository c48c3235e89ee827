"""A recorded load, played back."""

from typing import Protocol

import numpy as np

from simulator.jobs.trace_file import Series
from telemetry.frames import FloatArray


class LevelOf(Protocol):
    """Conversion of power into the load that draws it."""

    def __call__(self, power_w: FloatArray, clock_ratio: FloatArray) -> FloatArray:
        """Return the level, 0 to 1, at each GPU's clock over the part's highest; the arguments broadcast."""


class Playback:
    """The recording over time; each value holds until the next, and after the last the recording starts again.

    Parameters
    ----------
    level_of
        None: the values are levels already.
    """

    def __init__(self, series: Series, *, level_of: LevelOf | None) -> None:
        self._series = series
        self._level_of = level_of
        self._now_ms = 0

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        at_ms = (self._now_ms + np.arange(n_ms)) % self._series.period_ms
        values = self._series.values[np.searchsorted(self._series.time_ms, at_ms, side="right") - 1]
        self._now_ms += n_ms
        level = values if self._level_of is None else self._level_of(values, clock_ratio)
        return np.broadcast_to(level, (n_ms, len(clock_ratio)))
