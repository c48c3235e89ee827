"""The 12 V supply: branches side by side, a common bus, and a load that takes constant power."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.decay import DecayBlock
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyModel:
    """What does not change: the bus and how the supplies answer a step."""

    bus_ohm: float
    transient_ohm: float  # per unit
    transient_ms: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyBlock:
    """A block of milliseconds: voltage at the load, shape ``(n,)``, and current per branch, ``(n, n_branches)``."""

    voltage_v: FloatArray
    current_a: FloatArray


class Supply:
    """The rail over time, for blocks of a fixed length.

    `collapsed` counts the milliseconds in which the load asked for more than the rail can carry at any voltage; it
    then sits at half the open-circuit voltage, where a source gives the most.
    """

    def __init__(self, model: SupplyModel, n_branches: int, block_ms: int) -> None:
        self._model = model
        self._n_branches = n_branches
        ratio = float(np.exp(-1.0 / model.transient_ms))
        self._decay = DecayBlock(ratio, block_ms)
        self._droop_v = 0.0
        self._current_a: float | None = None
        self.collapsed = 0

    def advance(self, power_w: FloatArray, *, open_circuit_v: FloatArray, joint_ohm: FloatArray) -> SupplyBlock:
        """Give the rail under a load of shape ``(block_ms,)``.

        Branches in parallel act as one source (Thevenin); with constant power ``V**2 - E V + R P = 0``. A step of
        current adds a droop that decays (loop and output capacitors of the supplies).
        """
        conductance = 1.0 / joint_ohm
        source_v = float((open_circuit_v * conductance).sum() / conductance.sum())
        source_ohm = float(1.0 / conductance.sum()) + self._model.bus_ohm
        inside = source_v**2 - 4.0 * source_ohm * power_w
        self.collapsed += int((inside < 0.0).sum())
        static_v = 0.5 * (source_v + np.sqrt(np.maximum(inside, 0.0)))
        current_a = power_w / static_v
        before_a = current_a[0] if self._current_a is None else self._current_a
        step_v = self._model.transient_ohm / self._n_branches * np.diff(current_a, prepend=before_a)
        droop_v = self._decay.run(self._droop_v, step_v)
        self._droop_v, self._current_a = float(droop_v[-1]), float(current_a[-1])
        bus_v = static_v + current_a * self._model.bus_ohm
        branch_a = np.maximum((open_circuit_v - bus_v[:, None]) * conductance, 0.0)
        return SupplyBlock(voltage_v=static_v - droop_v, current_a=branch_a)
