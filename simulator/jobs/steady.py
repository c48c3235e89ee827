"""Constant load: nothing at all, or a program that only draws power."""

import numpy as np

from telemetry.frames import FloatArray


class SteadyLoad:
    """The same load in every millisecond."""

    def __init__(self, level: float) -> None:
        self._level = level

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        return np.full((n_ms, len(clock_ratio)), self._level)
