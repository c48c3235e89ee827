"""The supplies of many nodes over time: which deliver, how their joints age, and when one trips."""

from collections.abc import Sequence

import numpy as np

from simulator.files.node import JointAgeing, NodeFile
from simulator.files.scenario import Quantity
from simulator.fleet.rail import RailSources
from simulator.plant.ageing import LEFT_SHARE, aged_joint_mohm, joint_rise_k
from simulator.plant.units import sagged_v, trip_a
from telemetry.frames import FloatArray, MaskArray

Units = list[int] | slice  # columns of some supplies
ALL = slice(None)
_DAY_S = 86_400.0
_BRANCH = (Quantity.PSU_MOHM, Quantity.CABLE_MOHM, Quantity.CONNECTOR_MOHM)


class Supplies:
    """The supplies of a group of nodes that are wired alike, ``(n_nodes, n_units)``.

    A joint goes to what a scenario sets, whenever that changes, and ages on from there. A unit that tripped stays off
    until it is switched off and on, or the node starts cold.

    Attributes
    ----------
    joint_mohm
        As they are now, flicker included.
    on
        Those that deliver.
    rise_k
        How much warmer than the air the joints were in the last step.
    """

    def __init__(self, nodes: Sequence[NodeFile], chance: np.random.Generator) -> None:
        units = [node.supply.units for node in nodes]
        inputs = [node.supply.input for node in nodes]
        self._chance = chance
        self._ageing = _by_model([node.supply.ageing for node in nodes])
        self._trip_a = np.stack([trip_a(node.supply) for node in nodes])
        self._sag_v = np.array([[part.sag_v_per_ratio] for part in inputs])
        self._dropout = np.array([[part.dropout_ratio] for part in inputs])
        self._bus_ohm = np.array([node.supply.bus_mohm for node in nodes]) / 1000.0
        wiring = nodes[0].wiring
        self._units = [list(wiring.supplies_of(bus)) for bus in range(len(wiring.buses))]
        self._tripped: MaskArray = np.zeros(self._trip_a.shape, dtype=np.bool_)
        self._asked_mohm = np.array([[unit.joint_mohm for unit in row] for row in units])
        self._steady_mohm = self._asked_mohm.copy()
        self.transient_ohm = np.array([node.supply.transient_mohm for node in nodes]) / 1000.0
        self.transient_s = np.array([node.supply.transient_ms for node in nodes]) / 1000.0
        self.joint_mohm = self._asked_mohm.copy()
        self.on: MaskArray = np.ones(self._trip_a.shape, dtype=np.bool_)
        self.rise_k: FloatArray = np.zeros(self._trip_a.shape)
        self.output_ohm: FloatArray = np.zeros(self._trip_a.shape)  # of the unit itself
        self._open_circuit_v: FloatArray = np.zeros(self._trip_a.shape)
        self._branch_ohm: FloatArray = np.ones(self._trip_a.shape)

    def begin(self, values: dict[Quantity, FloatArray], *, input_ratio: float, powered: MaskArray) -> None:
        """Decide what feeds the nodes in a step."""
        asked = values[Quantity.JOINT_MOHM]
        changed = asked != self._asked_mohm
        if changed.any():
            self._steady_mohm = np.where(changed, asked, self._steady_mohm)
            self._asked_mohm = asked.copy()
        flicker = values[Quantity.JOINT_FLICKER]
        sign = np.where(self._chance.random(flicker.shape) < 0.5, -1.0, 1.0)
        self.joint_mohm = self._steady_mohm * np.maximum(1.0 + flicker * sign, LEFT_SHARE)
        mains = values[Quantity.INPUT_RATIO] * input_ratio
        in_service = (values[Quantity.IN_SERVICE] > 0.0) & powered[:, None]
        self._tripped &= in_service
        self.on = in_service & ~self._tripped & (mains >= self._dropout)
        self.output_ohm = values[Quantity.PSU_MOHM] / 1000.0
        open_v = values[Quantity.OPEN_CIRCUIT_V]
        self._open_circuit_v = sagged_v(open_v, mains, sag_v=self._sag_v, dropout_ratio=self._dropout)
        first, second, third = (values[part] for part in _BRANCH)
        self._branch_ohm = (first + second + third + self.joint_mohm) / 1000.0

    def fed(self) -> MaskArray:
        """Return the buses with a unit that delivers, ``(n_nodes, n_buses)``."""
        return np.stack([self.on[:, units].any(axis=1) for units in self._units], axis=1)

    def sources(self, units: Units = ALL) -> RailSources:
        """Return the sources of a bus of the nodes now; `units` are the supplies on it."""
        return RailSources(
            open_circuit_v=self._open_circuit_v[:, units],
            branch_ohm=self._branch_ohm[:, units],
            on=self.on[:, units],
            bus_ohm=self._bus_ohm,
        )

    def trip(self, highest_a: FloatArray, units: Units = ALL) -> bool:
        """Switch off what carries too much on a plateau; return True if any of these `units` tripped."""
        trips = np.zeros_like(self.on)
        trips[:, units] = self.on[:, units] & (highest_a > self._trip_a[:, units])
        if not trips.any():
            return False
        self._tripped = self._tripped | trips
        self.on = self.on & ~trips
        return True

    def reset(self, nodes: MaskArray) -> None:
        """Clear what tripped, as a cold start does."""
        self._tripped[nodes] = False

    def age(self, mean_square_a2: FloatArray, step_s: float, pace: FloatArray) -> None:
        """Warm and age the joints under the currents of a step; `pace` multiplies the ageing."""
        current_a = np.sqrt(mean_square_a2)
        for model, rows in self._ageing:
            self.rise_k[rows] = joint_rise_k(self.joint_mohm[rows], current_a[rows], model)
            if pace[rows].any():
                self._steady_mohm[rows] = aged_joint_mohm(
                    self._steady_mohm[rows], current_a[rows], pace[rows] * (step_s / _DAY_S), model
                )


def _by_model(models: Sequence[JointAgeing]) -> list[tuple[JointAgeing, slice | list[int]]]:
    if all(model == models[0] for model in models):
        return [(models[0], slice(None))]
    return [(model, [row for row, other in enumerate(models) if other == model]) for model in dict.fromkeys(models)]
