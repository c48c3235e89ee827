"""GPUs that go through phases of their own, each at a level and for a while."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.jobs.pace import FULL_PACE, US_PER_MS, pace, rows
from simulator.plant.state import CountArray
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Phase of one GPU; `clocked`: it takes longer at a lower clock. `length_us` is at least 1."""

    level: float
    length_us: int
    clocked: bool


Following = Callable[[int, int], Phase]  # GPU and the time in microseconds at which its next phase begins


class Phases:
    """The phases of all GPUs side by side.

    Parameters
    ----------
    following
        Asked for each GPU's first phase, and for the next one whenever a phase ends.
    """

    def __init__(self, n_gpus: int, *, clock_bound_share: float, following: Following) -> None:
        self._clock_bound_share = clock_bound_share
        self._following = following
        self._now_us = 0
        self._left: CountArray = np.zeros(n_gpus, dtype=np.int64)
        self._level = np.zeros(n_gpus)
        self._clocked = np.zeros(n_gpus, dtype=np.bool_)
        for gpu in range(n_gpus):
            self._enter(gpu, following(gpu, 0))

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the level of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        span_us = n_ms * US_PER_MS
        clocked_pace = pace(clock_ratio, self._clock_bound_share)
        work = span_us * np.where(self._clocked, clocked_pace, FULL_PACE)
        level = np.empty((n_ms, len(self._left)))
        level[:] = self._level
        ending = np.flatnonzero(self._left <= work)
        left = self._left.copy()
        self._left -= work
        for gpu in ending:
            self._left[gpu] = left[gpu]
            self._go_on(int(gpu), span_us, int(clocked_pace[gpu]), level)
        self._now_us += span_us
        return level

    def _go_on(self, gpu: int, span_us: int, clocked_pace: int, level: FloatArray) -> None:
        at_us = 0
        while at_us < span_us:
            work_per_us = clocked_pace if self._clocked[gpu] else FULL_PACE
            left = int(self._left[gpu])
            until_us = min(at_us - (-left // work_per_us), span_us)
            level[rows(at_us, until_us), gpu] = self._level[gpu]
            self._left[gpu] = left - (until_us - at_us) * work_per_us
            at_us = until_us
            if self._left[gpu] <= 0:
                self._enter(gpu, self._following(gpu, self._now_us + at_us))

    def _enter(self, gpu: int, phase: Phase) -> None:
        self._left[gpu] = phase.length_us * FULL_PACE
        self._level[gpu] = phase.level
        self._clocked[gpu] = phase.clocked
