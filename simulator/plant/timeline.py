"""State of a node, of many nodes and of a rack over time, as their scenarios define it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.rack import RackFile
from simulator.files.rack_scenario import RackChange, RackQuantity
from simulator.files.scenario import Quantity, ScenarioFile, target_of
from simulator.files.scenario_names import PIN_QUANTITIES
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
        **{quantity: np.zeros(count) for quantity in PIN_QUANTITIES},
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


class RackTimeline:
    """The quantities over time: steps and ramps, one after the other.

    Attributes
    ----------
    breaker_closed
        Whether the breaker was closed (True) or opened (False) since the time before; None: neither.
    """

    def __init__(self, rack: RackFile, changes: Sequence[RackChange]) -> None:
        self._values = {
            RackQuantity.INPUT_RATIO: 1.0,
            RackQuantity.BREAKER: 1.0,
            RackQuantity.CRAC_C: rack.air.crac_c,
        }
        self._last_s = -1.0
        self._ramps: list[tuple[RackChange, float]] = []
        pending = dict(self._values)
        for change in sorted(changes, key=lambda item: item.at):
            self._ramps.append((change, pending[change.what]))
            pending[change.what] = change.to
        self.breaker_closed: bool | None = None

    def at(self, time_s: float) -> dict[RackQuantity, float]:
        """Return the values at a time; times must not go back."""
        self.breaker_closed = None
        for change, start in self._ramps:
            end_s = change.at + change.over
            if change.at <= time_s and end_s >= self._last_s:
                part = 1.0 if time_s >= end_s else (time_s - change.at) / change.over
                self._values[change.what] = start + (change.to - start) * part
            if change.what is RackQuantity.BREAKER and self._last_s < change.at <= time_s:
                self.breaker_closed = change.to > 0.0
        self._last_s = time_s
        return self._values


class PlantTimetable:
    """State of the nodes over time, as their scenarios define it.

    All nodes have as many GPUs and supplies. A step sees the values at its beginning, so a change that comes and goes
    within one step is not seen.
    """

    def __init__(self, nodes: Sequence[NodeFile], scenarios: Sequence[ScenarioFile]) -> None:
        shared: dict[tuple[int, int], list[int]] = {}
        for row, pair in enumerate(zip(nodes, scenarios, strict=True)):
            shared.setdefault((id(pair[0]), id(pair[1])), []).append(row)
        self._rows = [np.array(rows) for rows in shared.values()]
        firsts = [rows[0] for rows in self._rows]
        self._timelines = [Timeline(nodes[first], scenarios[first]) for first in firsts]
        start = [starting_values(node) for node in nodes]
        self._values = {quantity: np.stack([values[quantity] for values in start]) for quantity in start[0]}
        spans = [
            (change.at, change.at + change.over, place)
            for place, first in enumerate(firsts)
            for change in scenarios[first].changes
        ]
        self._begin_s, self._end_s, place = np.array(spans, dtype=np.float64).reshape(-1, 3).T
        self._place = place.astype(np.intp)
        self._last_s = -np.inf

    def at(self, time_s: float) -> dict[Quantity, FloatArray]:
        """Return the values at a time, each ``(n_nodes, n_things)``; times must not go back, arrays stay the same."""
        active = (self._begin_s <= time_s) & (self._end_s >= self._last_s)
        for place in np.unique(self._place[active]):
            for quantity, values in self._timelines[place].at(time_s).items():
                self._values[quantity][self._rows[place]] = values
        self._last_s = time_s
        return self._values
