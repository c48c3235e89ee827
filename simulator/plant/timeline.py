"""State of the node over time, as the scenario defines it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity, ScenarioFile, target_of
from telemetry.frames import FloatArray

Values = dict[Quantity, FloatArray]  # one value for each supply, each GPU, or the node


def starting_values(node: NodeFile) -> Values:
    """Return every quantity that a scenario can change, as it is before the first change."""
    count = node.gpu_count
    units = node.supply.units
    return {
        Quantity.OPEN_CIRCUIT_V: np.array([unit.open_circuit_v for unit in units]),
        Quantity.PSU_MOHM: np.array([unit.psu_mohm for unit in units]),
        Quantity.CABLE_MOHM: np.array([unit.cable_mohm for unit in units]),
        Quantity.CONNECTOR_MOHM: np.array([unit.connector_mohm for unit in units]),
        Quantity.JOINT_MOHM: np.array([unit.joint_mohm for unit in units]),
        Quantity.JOINT_FLICKER: np.zeros(len(units)),
        Quantity.AGEING: np.zeros(len(units)),
        Quantity.IN_SERVICE: np.ones(len(units)),
        Quantity.INPUT_RATIO: np.ones(len(units)),
        Quantity.INTERFACE_K_PER_W: np.full(count, node.gpu.heat.interface_k_per_w),
        Quantity.PRESENT: np.ones(count),
        Quantity.POWER_BRAKE: np.zeros(count),
        Quantity.LOOSENESS: np.zeros(count),
        Quantity.CONTACT_MOHM: np.zeros(count),
        Quantity.FANS: np.ones(1),
        Quantity.POWERED: np.ones(1),
        Quantity.DRIVER: np.ones(1),
        Quantity.HANG: np.zeros(1),
        Quantity.INLET_C: np.array([node.inlet_c]),
        Quantity.OTHER_POWER_W: np.array([node.other_power_w]),
        Quantity.LEVEL: np.ones(1),
    }


class Timeline:
    """The quantities over time: steps and ramps, one after the other.

    Attributes
    ----------
    changed
        Whether the last look found anything that the look before had not.
    """

    def __init__(self, node: NodeFile, scenario: ScenarioFile) -> None:
        self._values = starting_values(node)
        self._last_s = 0.0
        self.changed = True
        self._changes: list[_Ramp] = []
        pending = {quantity: values.copy() for quantity, values in self._values.items()}
        for change in sorted(scenario.changes, key=lambda item: item.at):
            target = target_of(change, node)
            index = np.array(target.indices)
            before = pending[target.quantity]
            self._changes.append(
                _Ramp(
                    quantity=target.quantity,
                    index=index,
                    at_s=change.at,
                    end_s=change.at + change.over,
                    start=before[index],
                    to=change.to,
                )
            )
            before[index] = change.to

    def at(self, time_s: float) -> Values:
        """Return the values at a time, always in the same arrays; times must not go back."""
        self.changed = False
        for change in self._changes:
            if change.at_s <= time_s and change.end_s >= self._last_s:
                self._values[change.quantity][change.index] = change.value(time_s)
                self.changed = True
        self._last_s = time_s
        return self._values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ramp:
    """Change; a step where it takes no time."""

    quantity: Quantity
    index: npt.NDArray[np.intp]
    at_s: float
    end_s: float
    start: FloatArray
    to: float

    def value(self, time_s: float) -> FloatArray:
        """Return the values on the way, or the end of it."""
        if time_s >= self.end_s:
            return np.full(len(self.index), self.to)
        return self.start + (self.to - self.start) * ((time_s - self.at_s) / (self.end_s - self.at_s))
