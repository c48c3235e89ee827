"""Jobs whose GPUs go through phases of their own: solvers, and inference that serves requests."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.files.workload import Hpc, Inference
from simulator.jobs.pace import FULL_PACE, US_PER_MS, pace, rows, whole_us
from simulator.plant.state import CountArray
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Phase of one GPU; `clocked`: it takes longer at a lower clock. `length_us` is at least 1."""

    level: float
    length_us: int
    clocked: bool


NextPhase = Callable[[int, int], Phase]  # GPU and the time in microseconds at which its next phase begins


class Phases:
    """The phases of all GPUs side by side.

    Parameters
    ----------
    following
        Asked for each GPU's first phase, and for the next one whenever a phase ends.
    """

    def __init__(self, n_gpus: int, *, clock_bound_share: float, following: NextPhase) -> None:
        self._clock_bound_share = clock_bound_share
        self._following = following
        self._now_us = 0
        self._left: CountArray = np.zeros(n_gpus, dtype=np.int64)
        self._level = np.zeros(n_gpus)
        self._clocked = np.zeros(n_gpus, dtype=np.bool_)
        for gpu in range(n_gpus):
            self._enter(gpu, following(gpu, 0))

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the level of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        span_us = n_ms * US_PER_MS
        clocked_pace = pace(clock_ratio, self._clock_bound_share)
        work = span_us * np.where(self._clocked, clocked_pace, FULL_PACE)
        level = np.empty((n_ms, len(self._left)))
        level[:] = self._level
        ending = np.flatnonzero(self._left <= work)
        left = self._left.copy()
        self._left -= work
        for gpu in ending:
            self._left[gpu] = left[gpu]
            self._go_on(int(gpu), span_us, int(clocked_pace[gpu]), level)
        self._now_us += span_us
        return level

    def _go_on(self, gpu: int, span_us: int, clocked_pace: int, level: FloatArray) -> None:
        at_us = 0
        while at_us < span_us:
            work_per_us = clocked_pace if self._clocked[gpu] else FULL_PACE
            left = int(self._left[gpu])
            until_us = min(at_us - (-left // work_per_us), span_us)
            level[rows(at_us, until_us), gpu] = self._level[gpu]
            self._left[gpu] = left - (until_us - at_us) * work_per_us
            at_us = until_us
            if self._left[gpu] <= 0:
                self._enter(gpu, self._following(gpu, self._now_us + at_us))

    def _enter(self, gpu: int, phase: Phase) -> None:
        self._left[gpu] = phase.length_us * FULL_PACE
        self._level[gpu] = phase.level
        self._clocked[gpu] = phase.clocked


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


class Requests:
    """Requests served one after the other on each GPU; those that find it busy wait their turn.

    Arrivals are a Poisson process per GPU. Prefill and decoding take longer at a lower clock by the clock-bound share.
    """

    def __init__(self, workload: Inference, *, n_gpus: int, chance: np.random.Generator) -> None:
        self._workload = workload
        self._chances = chance.spawn(n_gpus)
        self._arrival_us = [self._gap_us(gpu) for gpu in range(n_gpus)]
        self._decoding: list[Phase | None] = [None] * n_gpus
        self._phases = Phases(n_gpus, clock_bound_share=workload.clock_bound_share, following=self._following)

    def advance(self, n_ms: int, clock_ratio: FloatArray) -> FloatArray:
        """Return the load of each GPU per millisecond, shape ``(n_ms, n_gpus)``."""
        return self._phases.advance(n_ms, clock_ratio)

    def _following(self, gpu: int, now_us: int) -> Phase:
        workload, chance = self._workload, self._chances[gpu]
        decoding, self._decoding[gpu] = self._decoding[gpu], None
        if decoding is not None:
            return decoding
        if self._arrival_us[gpu] > now_us:
            waiting_us = self._arrival_us[gpu] - now_us
            return Phase(level=workload.waiting_level, length_us=waiting_us, clocked=False)
        self._arrival_us[gpu] += self._gap_us(gpu)
        prefill_us = whole_us(chance.uniform(*workload.prefill_s))
        decode_us = whole_us(chance.uniform(*workload.decode_s))
        self._decoding[gpu] = Phase(
            level=float(chance.uniform(*workload.decode_level)), length_us=decode_us, clocked=True
        )
        return Phase(level=workload.prefill_level, length_us=prefill_us, clocked=True)

    def _gap_us(self, gpu: int) -> int:
        return whole_us(self._chances[gpu].exponential(1.0 / self._workload.requests_per_s))
