"""One level all the time: nothing at all, or a program that does nothing but draw power."""

import numpy as np

from simulator.files.workload import Idle, Steady
from telemetry.frames import FloatArray, MaskArray


class SteadyJob:
    """The same load in every millisecond; GPUs are independent, and there is nothing that could hang."""

    def __init__(self, workload: Idle | Steady, *, n_gpus: int) -> None:
        self._level = np.full(n_gpus, workload.level if isinstance(workload, Steady) else 0.0)
        self.name = workload.name
        self.memory_share = workload.memory_share
        self.input_factor = workload.input_factor
        self.clock_bound_share = workload.clock_bound_share
        self.steps = 0
        self.hung = self.dead = False

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:  # noqa: ARG002 - goes by nothing but what runs
        """Give the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        level = np.empty((n_ms, len(self._level)))
        level[:] = self._level * running
        return level
