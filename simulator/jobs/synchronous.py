"""Jobs whose GPUs wait for each other, and what becomes of them when one no longer answers."""

from typing import Protocol

import numpy as np

from simulator.files.workload import Workload
from telemetry.frames import FloatArray, MaskArray

# PyTorch, torch.distributed.init_process_group: the default time-out of the NCCL backend is 10 minutes.
TIMEOUT_MS = 600_000


class SynchronousLoad(Protocol):
    """Common phase of all GPUs while none is missing."""

    @property
    def steps(self) -> int:
        """Return how many steps have ended; 0 where there are none."""

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Advance and return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""

    def restart(self) -> None:
        """Resume the work after all GPUs were held."""


class SynchronousJob:
    """A job that a lost GPU or a hang holds: the GPUs spin until the framework gives up, and are idle from then on.

    It begins anew (a person or a scheduler starts it again) once nothing holds it any more.

    Parameters
    ----------
    stall_level
        Load of a GPU that spins.

    Attributes
    ----------
    hung
        The GPUs spin.
    dead
        The framework gave up, or no GPU is left to run on, as when the node is off.
    """

    collective = True

    def __init__(self, workload: Workload, together: SynchronousLoad, *, stall_level: float) -> None:
        self.workload = workload
        self._together = together
        self._stall_level = stall_level
        self._held_ms = 0
        self.hung = False
        self.dead = False

    @property
    def steps(self) -> int:
        """Return how many steps have ended."""
        return self._together.steps

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        if hang or not running.all():
            return self._hold(n_ms, running)
        if self._held_ms > 0:
            self._held_ms = 0
            self.hung = self.dead = False
            self._together.restart()
        return self._together.advance(n_ms, clock_ratio)

    def _hold(self, n_ms: int, running: MaskArray) -> FloatArray:
        if not running.any():
            self._held_ms = TIMEOUT_MS  # no process is left that could spin
        spinning_ms = min(max(TIMEOUT_MS - self._held_ms, 0), n_ms)
        level = np.zeros((n_ms, len(running)))
        level[:spinning_ms] = np.where(running, self._stall_level, 0.0)
        self._held_ms += n_ms
        self.dead = self._held_ms >= TIMEOUT_MS
        self.hung = not self.dead
        return level
