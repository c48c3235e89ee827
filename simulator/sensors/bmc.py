"""The board's controller: one round over all its sensors every few seconds."""

from dataclasses import dataclass

import numpy as np

from simulator.files.sensing import BMC_LABELS, bmc_labels
from simulator.files.sensor import SensorKind
from simulator.plant.state import PlantNodeState, Stretch
from simulator.sensors.instrument_builder import InstrumentBuilder
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BmcReadings:
    """Readings of the controller since `at_ms`; NaN where a sensor gives nothing."""

    at_ms: int
    bus_v: FloatArray  # (n_buses,)
    rail_v: float  # of the bus that the controller sits on
    inlet_c: float
    outlet_c: float
    node_power_w: float
    fan_rpm: FloatArray  # (n_fans,)
    psu_input_v: FloatArray  # (n_supplies,)
    psu_output_v: FloatArray
    psu_output_a: FloatArray
    psu_ok: MaskArray


class Bmc:
    """The controller of one node; it runs on standby power, whatever the node does.

    Attributes
    ----------
    readings
        The newest round.
    """

    def __init__(self, building: InstrumentBuilder, kind: SensorKind) -> None:
        node = building.node
        supplies = [unit.name for unit in node.supply.units]
        fans = [f"fan{index}" for index in range(node.cooling.fans)]
        buses = node.wiring.buses
        channels = [(name, bmc_labels(name, buses=buses, supplies=supplies, fans=fans)) for name in BMC_LABELS]
        (self._instrument,) = building.instruments(kind, channels)
        self._board_bus = node.wiring.of_rest  # the controller sits on the board that this bus feeds
        self._edges = np.cumsum([len(labels) for _, labels in channels])[:-1]
        self.readings: BmcReadings | None = None

    def begin(self, start_ms: int, stretch: Stretch, state: PlantNodeState) -> None:
        """Show everything at once."""
        self._instrument.begin(self._true(stretch, state))
        self.readings = self._read(start_ms, state)

    def advance(self, start_ms: int, stretch: Stretch, state: PlantNodeState) -> None:
        """Process the block that begins at `start_ms`."""
        if not self._instrument.awaits(start_ms):
            return
        self._instrument.advance(start_ms, self._true(stretch, state))
        if len(self._instrument.renewed):
            self.readings = self._read(int(self._instrument.at_ms.max()), state)

    def _read(self, at_ms: int, state: PlantNodeState) -> BmcReadings:
        bus_v, inlet, outlet, power, fans, *supplies = np.split(self._instrument.shown.copy(), self._edges)
        return BmcReadings(
            at_ms=at_ms,
            bus_v=bus_v,
            rail_v=float(bus_v[self._board_bus]),
            inlet_c=float(inlet[0]),
            outlet_c=float(outlet[0]),
            node_power_w=float(power[0]),
            fan_rpm=fans,
            psu_input_v=supplies[0],
            psu_output_v=supplies[1],
            psu_output_a=supplies[2],
            psu_ok=state.supplies.on.copy(),
        )

    def _true(self, stretch: Stretch, state: PlantNodeState) -> FloatArray:
        """Return what is true, in the order of `BMC_LABELS`; rails and currents as means over the block."""
        alone = [state.inlet_c, state.outlet_c, state.node_power_w]
        supplies, current_a = state.supplies, stretch.current_a.mean(axis=0)
        bus_v = [stretch.bus_v[:, bus].mean() for bus in range(stretch.bus_v.shape[1])]
        return np.concatenate([bus_v, alone, state.fan_rpm, supplies.input_v, supplies.output_v, current_a])
