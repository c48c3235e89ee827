"""A synchronous training job: all GPUs compute, the slowest sets the pace, then they exchange gradients."""

import math
from collections.abc import Sequence

import numpy as np

from simulator.files.workload import Training
from simulator.jobs.pace import FULL_PACE, US_PER_MS, pace, rows
from simulator.plant.state import CountArray
from telemetry.frames import FloatArray

_LEAST_WORK = 0.1  # of the mean; no draw of the jitter makes work vanish


class TrainingSteps:
    """The steps over time; the state is where in the step each GPU is.

    Step time at the highest clock is ``step_ms``, of which ``exchange_share`` goes into the exchange of gradients; the
    rest is work that follows the clock as in `simulator.jobs.pace.pace`.

    Parameters
    ----------
    gpus_of_nodes
        How many GPUs each node has, in the order of the GPUs; nodes begin a step `node_skew_ms` apart.
    """

    def __init__(self, workload: Training, *, gpus_of_nodes: Sequence[int], chance: np.random.Generator) -> None:
        self._workload = workload
        self._chance = chance
        self._node_of = np.repeat(np.arange(len(gpus_of_nodes)), gpus_of_nodes)
        self._work_us = workload.step_ms * (1.0 - workload.exchange_share) * US_PER_MS
        self._exchange_us = round(workload.step_ms * workload.exchange_share * US_PER_MS)
        never = workload.checkpoint_every is None or workload.checkpoint_for <= 0.0
        self._checkpoint_every_us = math.inf if never else round((workload.checkpoint_every or 0.0) * 1e6)
        self._checkpoint_us = round(workload.checkpoint_for * 1e6)
        self._next_checkpoint_us = self._checkpoint_every_us
        self._run_us = 0
        self._rest_us = 0
        self._rest_level = workload.exchange_level
        self._begin(together=False)
        self.steps = 0

    def restart(self) -> None:
        """Restart the step."""
        self._begin(together=False)

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        level = np.full((n_ms, len(clock_ratio)), self._workload.exchange_level)
        work_per_us = pace(clock_ratio, self._workload.clock_bound_share)
        now_us, end_us = 0, n_ms * US_PER_MS
        while now_us < end_us:
            if self._computing:
                until_us = self._compute(now_us, end_us, work_per_us, level)
            else:
                until_us = self._rest(now_us, end_us, level)
            self._run_us += until_us - now_us
            now_us = until_us
            if not self._computing and self._rest_us == 0:
                self._end_rest()
        return level

    def _begin(self, *, together: bool) -> None:
        """Draw what each GPU has to do in a step; `together`: all GPUs begin at once."""
        self._saving = False
        workload, n_gpus = self._workload, len(self._node_of)
        factor = np.maximum(1.0 + workload.jitter * self._chance.standard_normal(n_gpus), _LEAST_WORK)
        self._work: CountArray = np.rint(self._work_us * factor * FULL_PACE).astype(np.int64) + 1
        wait_ms = workload.skew_ms * np.abs(self._chance.standard_normal(n_gpus))
        if self._node_of[-1] > 0:
            node_ms = workload.node_skew_ms * np.abs(self._chance.standard_normal(int(self._node_of[-1]) + 1))
            wait_ms += node_ms[self._node_of]
        self._wait_us: CountArray = np.rint(wait_ms * US_PER_MS * (not together)).astype(np.int64)
        self._waiting = bool(self._wait_us.any())
        self._computing = True

    def _compute(self, now_us: int, end_us: int, work_per_us: CountArray, level: FloatArray) -> int:
        done_us = self._wait_us - (-self._work // work_per_us)  # from now, rounded up
        left_us = end_us - now_us
        last_us = int(done_us.max())
        until_us = now_us + min(last_us, left_us)
        span = rows(now_us, until_us)
        if not self._waiting and int(done_us.min()) >= left_us:
            level[span] = 1.0
        else:
            at_us = (np.arange(span.start, span.stop) * US_PER_MS - now_us)[:, None]
            level[span][(at_us >= self._wait_us) & (at_us < done_us)] = 1.0
        if last_us <= left_us:
            self._computing = False
            self._rest_us, self._rest_level = self._exchange_us, self._workload.exchange_level
            return until_us
        if self._waiting:
            self._work -= np.maximum(left_us - self._wait_us, 0) * work_per_us
            self._wait_us = np.maximum(self._wait_us - left_us, 0)
            self._waiting = bool(self._wait_us.any())
        else:
            self._work -= left_us * work_per_us
        np.maximum(self._work, 0, out=self._work)
        return until_us

    def _rest(self, now_us: int, end_us: int, level: FloatArray) -> int:
        until_us = min(now_us + self._rest_us, end_us)
        self._rest_us -= until_us - now_us
        if self._rest_level != self._workload.exchange_level:
            level[rows(now_us, until_us)] = self._rest_level
        return until_us

    def _end_rest(self) -> None:
        """Continue after an exchange or a checkpoint that has just ended."""
        if self._saving:
            self._next_checkpoint_us = self._run_us + self._checkpoint_every_us
            self._begin(together=True)
            return
        self.steps += 1
        if self._run_us >= self._next_checkpoint_us:
            self._saving = True
            self._rest_us, self._rest_level = self._checkpoint_us, self._workload.checkpoint_level
        else:
            self._begin(together=False)
