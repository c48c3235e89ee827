"""What becomes of a job whose GPUs wait for each other when one of them no longer answers."""

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# PyTorch, torch.distributed.init_process_group: the default time-out of the NCCL backend is 10 minutes.
TIMEOUT_MS = 600_000


class Stall:
    """A collective that does not return: the GPUs spin until the framework gives up, and are idle from then on.

    The job begins anew (a person or a scheduler starts it again) once nothing holds it any more.

    Attributes
    ----------
    hung
        The GPUs spin.
    dead
        The framework gave up, or no GPU is left to run on, as when the node is off.
    """

    def __init__(self, level: float) -> None:
        self._level = level
        self._held_ms = 0
        self.hung = False
        self.dead = False

    def hold(self, n_ms: int, running: MaskArray) -> FloatArray:
        """Give the levels of a job that is held, shape ``(n_ms, n_gpus)``."""
        if not running.any():
            self._held_ms = TIMEOUT_MS
        spinning_ms = min(max(TIMEOUT_MS - self._held_ms, 0), n_ms)
        level = np.zeros((n_ms, len(running)))
        level[:spinning_ms] = np.where(running, self._level, 0.0)
        self._held_ms += n_ms
        self.dead = self._held_ms >= TIMEOUT_MS
        self.hung = not self.dead
        return level

    def release(self) -> bool:
        """Let the job go on; tell whether it was held and so has to begin anew."""
        held, self._held_ms = self._held_ms > 0, 0
        self.hung = self.dead = False
        return held
