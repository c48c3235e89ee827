"""The port between the plant and what runs on it."""

from typing import Protocol

from simulator.files.workload import Workload
from telemetry.frames import FloatArray, MaskArray


class Job(Protocol):
    """A job over time.

    The levels depend on the seed, the clocks, and what is running in each millisecond, and not on how time is cut into
    calls: the same bytes come back.
    """

    @property
    def workload(self) -> Workload:
        """Return what the job was made of."""

    @property
    def collective(self) -> bool:
        """Return True if the GPUs wait for each other, so that one can hold them all."""

    @property
    def steps(self) -> int:
        """Return how many steps have ended; 0 for a job that has none."""

    @property
    def hung(self) -> bool:
        """Return True if the job waits for something that never comes; its GPUs spin, at 100 % utilisation."""

    @property
    def dead(self) -> bool:
        """Return True if the job has ended by a time-out or with its node; its GPUs are idle."""

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:
        """Advance and return the load of each GPU, 0 (idle) to 1, shape ``(n_ms, n_gpus)``.

        Parameters
        ----------
        clock_ratio
            Each GPU's clock over the part's highest, shape ``(n_gpus,)``; what a lost GPU shows does not matter.
        running
            Which GPUs can work: on their bus, powered, driver loaded. Shape ``(n_gpus,)``.
        hang
            A collective that never returns. Jobs without collectives do not notice.
        """
