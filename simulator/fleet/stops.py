"""Jobs that cannot go on: a collective hangs, or a GPU is lost that the others wait for."""

from collections.abc import Sequence

import numpy as np

from simulator.files.workload import Hpc, Training, Workload
from simulator.fleet.schedule import IndexArray
from simulator.fleet.table import NOTHING, RUNNING, STALLED
from simulator.jobs.synchronous import TIMEOUT_MS
from telemetry.frames import FloatArray, MaskArray

TIMEOUT_S = TIMEOUT_MS / 1000.0


class Stops:
    """The jobs of a group of nodes that are held, ``(n_nodes,)``.

    Attributes
    ----------
    since_s
        From when on the job could not go on; NaN while it can. `TIMEOUT_S` later its framework gives up.
    """

    def __init__(self, jobs: Sequence[Workload], n_nodes: int) -> None:
        self._coupled = np.array([isinstance(job, Training | Hpc) for job in jobs])
        self.since_s: FloatArray = np.full(n_nodes, np.nan)

    def became(
        self, time_s: float, step_s: float, *, job: IndexArray, lost_s: FloatArray, hangs: MaskArray
    ) -> IndexArray:
        """Return what becomes of each node's job in a step: it runs, its GPUs spin, or its framework gave up.

        A step takes one answer, that of its middle.

        Parameters
        ----------
        job
            Index into the jobs.
        lost_s
            When the node lost a GPU that it still lacks; inf where it has all.
        hangs
            A collective would not return now.
        """
        held = self._coupled[job] & (hangs | np.isfinite(lost_s))
        since_s = np.fmin(self.since_s, np.minimum(time_s, lost_s))
        self.since_s = np.where(held, since_s, np.nan)
        given_up = time_s + 0.5 * step_s - self.since_s > TIMEOUT_S
        return np.where(held, np.where(given_up, NOTHING, STALLED), RUNNING)
