"""Inference: requests arrive by themselves, each a prefill burst and then decoding, on every GPU for itself."""

import numpy as np

from simulator.files.workload import Inference
from simulator.jobs.pace import whole_us
from simulator.jobs.phases import Phase, Phases
from telemetry.frames import FloatArray


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
