"""A recorded load, played back."""

from typing import Protocol

import numpy as np

from simulator.files.workload import Trace
from simulator.jobs.trace_file import Series
from telemetry.frames import FloatArray, MaskArray


class LevelOf(Protocol):
    """What turns power into the load that draws it."""

    def __call__(self, power_w: FloatArray, clock_ratio: FloatArray) -> FloatArray:
        """Give the level, 0 to 1, at each GPU's clock over the part's highest; the arguments broadcast."""


class TraceJob:
    """The recording over time; each value holds until the next, and after the last the recording starts again.

    GPUs are independent: a lost one is without load, the others go on as recorded.

    Parameters
    ----------
    level_of
        None: the values are levels already.
    """

    def __init__(self, workload: Trace, series: Series, *, n_gpus: int, level_of: LevelOf | None) -> None:
        self._series = series
        self._n_gpus = n_gpus
        self._level_of = level_of
        self._now_ms = 0
        self.name = workload.name
        self.memory_share = workload.memory_share
        self.input_factor = workload.input_factor
        self.clock_bound_share = workload.clock_bound_share
        self.steps = 0
        self.hung = self.dead = False

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:  # noqa: ARG002 - a recording does not hang
        """Give the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        at_ms = (self._now_ms + np.arange(n_ms)) % self._series.period_ms
        values = self._series.values[np.searchsorted(self._series.time_ms, at_ms, side="right") - 1]
        self._now_ms += n_ms
        level = values if self._level_of is None else self._level_of(values, clock_ratio)
        return np.broadcast_to(level, (n_ms, self._n_gpus)) * running
