"""Events that come by chance at a rate that changes: Poisson counts that do not depend on how time is cut."""

import numpy as np

from simulator.plant.chance import stream
from simulator.plant.state import CountArray
from telemetry.frames import FloatArray


class Arrivals:
    """A Poisson process for each GPU.

    Each keeps the integral of its rate and compares it with the arrival times of a process of rate one (time change of
    a Poisson process), so that a block costs one addition and one comparison, and a draw only where something arrives.
    """

    def __init__(self, n_gpus: int, *, seed: int, name: str) -> None:
        self._chances = [stream(seed, f"{name} {gpu}") for gpu in range(n_gpus)]
        self._dose = np.zeros(n_gpus)
        self._next = np.array([chance.standard_exponential() for chance in self._chances])

    def advance(self, dose: FloatArray) -> CountArray | None:
        """Add the integral of the rates over a block; give how many arrived in it, None where nothing did."""
        self._dose += dose
        due = self._dose >= self._next
        if not due.any():
            return None
        counts = np.zeros(len(due), dtype=np.int64)
        for gpu in np.flatnonzero(due):
            while self._dose[gpu] >= self._next[gpu]:
                counts[gpu] += 1
                self._next[gpu] += self._chances[gpu].standard_exponential()
        return counts
