"""The electrical side of a node: which units deliver, how good their joints are, and what the buses then do."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity
from simulator.plant.ageing import Joints
from simulator.plant.buses import BusBlock, Buses
from simulator.plant.chance import stream
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.state import PlantNodeState
from simulator.plant.timeline import Values
from simulator.plant.units import SupplyUnits
from telemetry.frames import FloatArray, MaskArray

SURVIVES_RATIO = 0.75  # assumption: of the open-circuit voltage; converters on a module lock out around 9 V of 12
COLLAPSE_MS = 3  # assumption: what the capacitors of a module bridge
_BEFORE_JOINT = (Quantity.PSU_MOHM, Quantity.CABLE_MOHM, Quantity.CONNECTOR_MOHM)


class Feed:
    """Supplies, joints and buses of a node over time, in blocks of a fixed length.

    Parameters
    ----------
    load_w
        Of each bus at the start, ``(block_ms, n_buses)``.

    Attributes
    ----------
    collapsed
        Buses that were, in the last block, for too long below what any module survives, ``(n_buses,)``.
    """

    def __init__(self, node: NodeFile, values: Values, *, load_w: FloatArray, block_ms: int, seed: int) -> None:
        wiring = node.wiring
        self._block_ms = block_ms
        self._bus_of_supply = np.array(wiring.of_supply, dtype=np.intp)
        open_v = np.array([unit.open_circuit_v for unit in node.supply.units])
        self._survives_v = [
            SURVIVES_RATIO * float(open_v[self._bus_of_supply == bus].max()) for bus in range(len(wiring.buses))
        ]
        self._nominal_v = node.supply.input.nominal_v
        self._units = SupplyUnits(node.supply)
        self._buses = Buses(node, block_ms)
        self._low_ms = [0] * len(wiring.buses)
        self._feed_ratio = 1.0
        self.collapsed: MaskArray = np.zeros(len(wiring.buses), dtype=np.bool_)
        self._source_v = self._units.source_v(values[Quantity.OPEN_CIRCUIT_V], values[Quantity.INPUT_RATIO])
        self._input_v = self._nominal_v * values[Quantity.INPUT_RATIO]
        joint_mohm = values[Quantity.JOINT_MOHM]
        self._psu_ohm = values[Quantity.PSU_MOHM] / 1000.0
        self._branch_ohm = (_sum(values) + joint_mohm) / 1000.0
        self._shown = self._buses.advance(
            load_w, open_circuit_v=self._source_v, branch_ohm=self._branch_ohm, on=self._units.on
        )
        self._joints = Joints(
            node.supply.ageing,
            joint_mohm=joint_mohm,
            current_a=self._shown.current_a[-1],
            chance=stream(seed, "joint flicker"),
        )

    @property
    def fed(self) -> MaskArray:
        """Return the buses with a unit that delivers, ``(n_buses,)``."""
        return self._buses.fed(self._units.on)

    def follow(self, now_ms: int, values: Values, *, feed_ratio: float, changed: bool) -> list[PlantEvent]:
        """Apply the scenario's requests if they `changed`; `feed_ratio` multiplies the mains of all units."""
        settled = self._units.settled and self._joints.settled and feed_ratio == self._feed_ratio
        if settled and not changed:
            return []
        self._feed_ratio = feed_ratio
        input_ratio = values[Quantity.INPUT_RATIO] * feed_ratio
        in_service = values[Quantity.IN_SERVICE] > 0.0
        events = self._units.follow(now_ms, self._block_ms, in_service=in_service, input_ratio=input_ratio)
        self._source_v = self._units.source_v(values[Quantity.OPEN_CIRCUIT_V], input_ratio)
        self._input_v = self._nominal_v * input_ratio
        joint_mohm = self._joints.follow(
            now_ms,
            self._block_ms,
            asked_mohm=values[Quantity.JOINT_MOHM],
            flicker=values[Quantity.JOINT_FLICKER],
            ageing=values[Quantity.AGEING],
        )
        self._psu_ohm = values[Quantity.PSU_MOHM] / 1000.0
        self._branch_ohm = (_sum(values) + joint_mohm) / 1000.0
        return events

    def advance(self, start_ms: int, load_w: FloatArray, *, powered: bool) -> tuple[BusBlock, list[PlantEvent]]:
        """Carry a block of load, ``(block_ms, n_buses)``; return the buses and what tripped.

        Assumption: the supplies of all buses follow the power-on signal of the node.
        """
        on = self._units.on if powered else np.zeros_like(self._units.on)
        block = self._shown = self._buses.advance(
            load_w, open_circuit_v=self._source_v, branch_ohm=self._branch_ohm, on=on
        )
        self._joints.warm(block.current_a)
        end_ms = start_ms + self._block_ms
        events = self._units.watch(end_ms, block.current_a)
        self._watch_collapse(block.bus_v, fed=self._buses.fed(on))
        if self.collapsed.any():
            events.append(PlantEvent(time_ms=end_ms - 1, kind=PlantEventKind.RAIL_COLLAPSE))
        return block, events

    def power_on(self) -> None:
        """Reset the state from before the node was off: lowest rail, trips."""
        self._low_ms = [0] * len(self._low_ms)
        self.collapsed = np.zeros_like(self.collapsed)

    def show(self, state: PlantNodeState) -> None:
        """Write what holds at the end of the last block into the state."""
        block, supplies = self._shown, state.supplies
        current_a = block.current_a[-1]
        supplies.on = self._units.on
        supplies.current_a = current_a
        supplies.joint_mohm = self._joints.joint_mohm
        supplies.joint_c = state.inlet_c + self._joints.rise_k
        supplies.input_v = self._input_v
        bus_v = block.bus_v[-1]
        state.rail_v = float(bus_v.min())
        delivers = self._units.on & (bus_v > 0.0)[self._bus_of_supply]
        droop_v = block.droop_v[-1][self._bus_of_supply]
        supplies.output_v = (self._source_v - droop_v - current_a * self._psu_ohm) * delivers
        state.node_power_w = float(supplies.output_v @ current_a)
        state.collapsed_ms = self._buses.collapsed_ms

    def _watch_collapse(self, bus_v: FloatArray, *, fed: MaskArray) -> None:
        self.collapsed = np.zeros_like(self.collapsed)
        for bus, survives_v in enumerate(self._survives_v):
            was = self._low_ms[bus] >= COLLAPSE_MS
            if not fed[bus] or float(bus_v[:, bus].min()) >= survives_v:
                self._low_ms[bus] = 0
                continue
            for low in bus_v[:, bus] < survives_v:
                self._low_ms[bus] = self._low_ms[bus] + 1 if low else 0
                self.collapsed[bus] |= self._low_ms[bus] >= COLLAPSE_MS and not was


def _sum(values: Values) -> FloatArray:
    first, second, third = (values[part] for part in _BEFORE_JOINT)
    return first + second + third
