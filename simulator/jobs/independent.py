"""Jobs whose GPUs work for themselves: a lost one is without load, and the others do not notice."""

from typing import Protocol

from simulator.files.workload import Workload
from telemetry.frames import FloatArray, MaskArray


class Alone(Protocol):
    """Independent work of each GPU."""

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Move on and give the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""


class IndependentJob:
    """A job without collectives: nothing can hang, and what a lost GPU had to do is lost with it."""

    collective = hung = dead = False
    steps = 0

    def __init__(self, workload: Workload, alone: Alone) -> None:
        self.workload = workload
        self._alone = alone

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:  # noqa: ARG002 - no collectives
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        return self._alone.advance(n_ms, clock_ratio) * running
