"""Jobs whose GPUs work for themselves: constant loads and recordings; a lost GPU does not hold the others."""

from typing import Protocol

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.files.workload import Workload
from simulator.jobs.trace_file import RecordedLoad
from simulator.plant.power import REFERENCE_C, part_power
from telemetry.frames import FloatArray, MaskArray


class IndependentLoad(Protocol):
    """Independent work of each GPU."""

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Advance and return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""


class IndependentJob:
    """A job without collectives: nothing can hang, and what a lost GPU had to do is lost with it."""

    collective = hung = dead = False
    steps = 0

    def __init__(self, workload: Workload, alone: IndependentLoad) -> None:
        self.workload = workload
        self._alone = alone

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:  # noqa: ARG002 - no collectives
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        return self._alone.advance(n_ms, clock_ratio) * running


class ConstantLoad:
    """The same load in every millisecond."""

    def __init__(self, level: float) -> None:
        self._level = level

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        return np.full((n_ms, len(clock_ratio)), self._level)


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

    def __init__(self, series: RecordedLoad, *, level_of: LevelOf | None) -> None:
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


def level_of(part: GpuPart, *, input_factor: float) -> LevelOf:
    """Return the function from watts to a level: the curve is linear in the level, so two of its points are enough.

    Watts outside what the part draws at the clock of the moment are cut to 0 or 1. A recording in watts does not hold
    the temperature of the part; at 0.3 % per kelvin of the base power the plant ends within a few watts of it.
    """
    model, max_mhz = part_power(part), part.clocks.max_mhz

    def invert(power_w: FloatArray, clock_ratio: FloatArray) -> FloatArray:
        at_c = np.full_like(clock_ratio, REFERENCE_C)
        none_w = model.power_w(clock_ratio * max_mhz, np.zeros_like(clock_ratio), at_c, input_factor)
        full_w = model.power_w(clock_ratio * max_mhz, np.ones_like(clock_ratio), at_c, input_factor)
        level: FloatArray = np.clip((power_w - none_w) / (full_w - none_w), 0.0, 1.0)
        return level

    return invert
