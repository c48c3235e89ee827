"""The rail: branches side by side that give and never take, a common bus, and a load that takes constant power."""

from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.decay import DecayBlock
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyModel:
    """Constants of the bus, and how the supplies respond to a step."""

    bus_ohm: float
    transient_ohm: float  # per unit
    transient_ms: float


def supply_model(node: NodeFile) -> SupplyModel:
    """Return the rail."""
    supply = node.supply
    return SupplyModel(
        bus_ohm=supply.bus_mohm / 1000.0,
        transient_ohm=supply.transient_mohm / 1000.0,
        transient_ms=supply.transient_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyBlock:
    """A block of milliseconds."""

    voltage_v: FloatArray  # (n,) at the load
    current_a: FloatArray  # (n, n_branches), never negative
    droop_v: FloatArray  # (n,) what every branch gives less than its open-circuit voltage, after a step
    served_ratio: FloatArray | float  # (n,) of the power asked for; below 1 only where the rail collapsed


def loaded_v(open_v: FloatArray, source_ohm: FloatArray | float, power_w: FloatArray) -> FloatArray:
    """Return the voltage of a source under constant power, the upper root of ``V**2 - E V + R P = 0``.

    Half the open-circuit voltage, where a source gives the most, is the lowest: a larger load collapses the rail there.
    """
    voltage_v: FloatArray = 0.5 * (open_v + np.sqrt(np.maximum(open_v * open_v - 4.0 * source_ohm * power_w, 0.0)))
    return voltage_v


class SupplyRail:
    """The rail over time, for blocks of a fixed length.

    `collapsed_ms` counts the milliseconds in which the load asked for more than the rail can carry at any voltage; it
    then sits at half the open-circuit voltage, where a source gives the most.
    """

    def __init__(self, model: SupplyModel, n_branches: int, block_ms: int) -> None:
        self._model = model
        self._shape = (block_ms, n_branches)
        ratio = float(np.exp(-1.0 / model.transient_ms))
        self._decay = DecayBlock(ratio, block_ms)
        self._droop_v = 0.0
        self._current_a: float | None = None
        self.collapsed_ms = 0

    def advance(
        self, power_w: FloatArray, *, open_circuit_v: FloatArray, branch_ohm: FloatArray, on: MaskArray
    ) -> SupplyBlock:
        """Return the rail under a load of shape ``(block_ms,)``.

        Branches in parallel act as one source (Thevenin); with constant power ``V**2 - (E - d) V + R P = 0``. A step of
        the current adds a droop ``d`` that decays (loop and output capacitors of the supplies). A branch whose voltage
        lies below the bus carries nothing (OR-ing). Without any branch that is on, all is zero.
        """
        count = int(np.count_nonzero(on))
        if count == 0:
            self._droop_v, self._current_a = 0.0, None
            nothing = np.zeros(self._shape[0])
            return SupplyBlock(
                voltage_v=nothing, current_a=np.zeros(self._shape), droop_v=nothing, served_ratio=nothing
            )
        conductance = np.where(on, 1.0 / branch_ohm, 0.0)
        source_v, source_ohm = _source(open_circuit_v, conductance, self._model.bus_ohm)
        droop_v = self._droop(power_w, source_v, source_ohm, count)
        while True:
            open_v = source_v - droop_v
            voltage_v = loaded_v(open_v, source_ohm, power_w)
            current_a = (open_v - voltage_v) / source_ohm
            bus_v = voltage_v + current_a * self._model.bus_ohm
            branch_a = ((open_circuit_v - droop_v[:, None]) - bus_v[:, None]) * conductance
            reverse = branch_a < -1e-9
            if not reverse.any():
                break
            conductance = np.where(reverse, 0.0, conductance)  # its OR-ing opens; the others then carry more
            source_v, source_ohm = _source(open_circuit_v, conductance, self._model.bus_ohm)
        served: FloatArray | float = 1.0
        short = 4.0 * source_ohm * power_w > open_v * open_v
        if short.any():
            self.collapsed_ms += int(np.count_nonzero(short))
            served = np.where(short, voltage_v * current_a / np.maximum(power_w, 1e-9), 1.0)
        return SupplyBlock(
            voltage_v=voltage_v, current_a=np.maximum(branch_a, 0.0), droop_v=droop_v, served_ratio=served
        )

    def _droop(
        self, power_w: FloatArray, source_v: FloatArray | float, source_ohm: FloatArray | float, count: int
    ) -> FloatArray:
        current_a = power_w / loaded_v(np.asarray(source_v), source_ohm, power_w)
        step_a = np.empty_like(current_a)
        step_a[0] = 0.0 if self._current_a is None else current_a[0] - self._current_a
        np.subtract(current_a[1:], current_a[:-1], out=step_a[1:])
        droop_v = self._decay.run(self._droop_v, (self._model.transient_ohm / count) * step_a)
        self._droop_v, self._current_a = float(droop_v[-1]), float(current_a[-1])
        return droop_v


def _source(
    open_circuit_v: FloatArray, conductance: FloatArray, bus_ohm: float
) -> tuple[FloatArray | float, FloatArray | float]:
    total = conductance.sum(axis=-1)
    return (open_circuit_v * conductance).sum(axis=-1) / total, 1.0 / total + bus_ohm
