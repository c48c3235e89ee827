"""A solver: each GPU goes through long phases of its own, and all pause together while results are written."""

import numpy as np

from simulator.files.workload import Hpc
from simulator.jobs.pace import whole_us
from simulator.jobs.phases import Phase, Phases
from telemetry.frames import FloatArray


class SolverPhases:
    """Phases at changing intensity, loosely coupled, with a common pause for output.

    Phases and pauses go by the wall clock, so that the output of all GPUs begins at the same moment.
    """

    def __init__(self, workload: Hpc, *, n_gpus: int, chance: np.random.Generator) -> None:
        self._workload = workload
        self._chances = chance.spawn(n_gpus)
        self._output_us = whole_us(workload.output_for)
        self._next_us = [whole_us(workload.output_every)] * n_gpus
        self._phases = Phases(n_gpus, clock_bound_share=workload.clock_bound_share, following=self._following)
        self.steps = 0

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        return self._phases.advance(n_ms, clock_ratio)

    def restart(self) -> None:
        """Do nothing: the phases continue where they stopped."""

    def _following(self, gpu: int, now_us: int) -> Phase:
        workload, chance = self._workload, self._chances[gpu]
        if now_us >= self._next_us[gpu]:
            self._next_us[gpu] = now_us + whole_us(workload.output_every)
            return Phase(level=workload.output_level, length_us=self._output_us, clocked=False)
        length_us = min(whole_us(chance.uniform(*workload.phase_s)), self._next_us[gpu] - now_us)
        return Phase(level=float(chance.uniform(*workload.level)), length_us=length_us, clocked=False)
