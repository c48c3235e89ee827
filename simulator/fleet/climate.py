"""Surroundings of the nodes of a fleet: air and mains that swing over the day and wander."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.rack_site import day_swing, wandered
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """Variation of air and mains; all zero: the values of node file and scenario.

    Parameters
    ----------
    diurnal_k, input_swing
        Amplitudes over a day, of the inlet and of the mains as a share of their nominal.
    noise_k, noise_memory_s
        Standard deviation and memory of an AR(1) process of each node's inlet.
    """

    diurnal_k: float = 0.0
    input_swing: float = 0.0
    noise_k: float = 0.0
    noise_memory_s: float = 6.0 * 3600.0  # assumption: weather and doors


class Surroundings:
    """The climate of all nodes over time."""

    def __init__(self, climate: Climate, n_nodes: int, chance: np.random.Generator) -> None:
        self._climate = climate
        self._chance = chance
        self._noise_k: FloatArray = climate.noise_k * chance.standard_normal(n_nodes)

    def inlet_offset_k(self, time_s: float, step_s: float) -> FloatArray:
        """Return how much warmer the air is than in the scenario, ``(n_nodes,)``; call it once per step."""
        climate = self._climate
        if climate.noise_k > 0.0 and time_s > 0.0:
            self._noise_k = wandered(
                self._noise_k,
                spread=climate.noise_k,
                memory_s=climate.noise_memory_s,
                after_s=step_s,
                normal=self._chance.standard_normal(len(self._noise_k)),
            )
        return self._noise_k + climate.diurnal_k * day_swing(time_s)

    def input_ratio(self, time_s: float) -> float:
        """Return the mains voltage against its nominal: lowest when it is warmest."""
        return 1.0 - self._climate.input_swing * day_swing(time_s)
