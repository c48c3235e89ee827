"""A solver: each GPU goes through long phases of its own, and all pause together while results are written."""

import numpy as np

from simulator.files.workload import Hpc
from simulator.jobs.pace import whole_us
from simulator.jobs.phases import Phase, Phases
from simulator.jobs.stall import Stall
from telemetry.frames import FloatArray, MaskArray


class HpcJob:
    """Phases at changing intensity, loosely coupled, with a common pause for output.

    The ranks do wait for each other in the end: a lost GPU or a hang leaves the others at the level of the output
    pause, spinning, and where the phases stopped they go on once nothing holds the job.
    """

    def __init__(self, workload: Hpc, *, n_gpus: int, chance: np.random.Generator) -> None:
        self._workload = workload
        self._chances = chance.spawn(n_gpus)
        self._stall = Stall(workload.output_level)
        self._output_us = whole_us(workload.output_for)
        self._next_us = [whole_us(workload.output_every)] * n_gpus
        self._phases = Phases(n_gpus, clock_bound_share=workload.clock_bound_share, following=self._following)
        self.name = workload.name
        self.memory_share = workload.memory_share
        self.input_factor = workload.input_factor
        self.clock_bound_share = workload.clock_bound_share
        self.steps = 0

    @property
    def hung(self) -> bool:
        """Tell whether the ranks wait for one that does not answer."""
        return self._stall.hung

    @property
    def dead(self) -> bool:
        """Tell whether the framework gave up."""
        return self._stall.dead

    def advance(self, n_ms: int, clock_ratio: FloatArray, running: MaskArray, *, hang: bool) -> FloatArray:
        """Give the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        if hang or not running.all():
            return self._stall.hold(n_ms, running)
        self._stall.release()
        return self._phases.advance(n_ms, clock_ratio)

    def _following(self, gpu: int, now_us: int) -> Phase:
        # Phases and pauses go by the wall clock, so that the output of all GPUs begins at the same moment.
        workload, chance = self._workload, self._chances[gpu]
        if now_us >= self._next_us[gpu]:
            self._next_us[gpu] = now_us + whole_us(workload.output_every)
            return Phase(level=workload.output_level, length_us=self._output_us, clocked=False)
        length_us = min(whole_us(chance.uniform(*workload.phase_s)), self._next_us[gpu] - now_us)
        return Phase(level=float(chance.uniform(*workload.level)), length_us=length_us, clocked=False)
