"""All sensors of a node: what can be known of the truth, and when it was measured."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.sensing import EXPORTER
from simulator.plant.plant import BLOCK_MS
from simulator.plant.state import PlantNodeState, Stretch, rows_of
from simulator.sensors.bmc import Bmc, BmcReadings
from simulator.sensors.instrument_builder import InstrumentBuilder, Role, kind_for
from simulator.sensors.pins import PinMonitors
from simulator.sensors.probes import DriverSensors, InletProbe, RailMonitors
from telemetry.frames import MaskArray


class SensorBank:
    """The sensors of a node under a scenario; the same seed gives the same readings.

    It is advanced after every block of the plant. All values are NaN before the first block and where a sensor gives
    nothing; a GPU that does not answer keeps what it showed last, and is False in `gpu_answers`.
    `..._at_ms` is the plant's time at which a measurement ended.

    Attributes
    ----------
    driver, rail
        Sensors of the boards and of the branches: their values, and what the last block renewed.
    pins
        Monitors of the GPUs' power connectors, None where there are none.
    exporter_alive
        False while what reads the driver is dead: then no GPU answers, though all may be there.
    """

    def __init__(self, node: NodeFile, scenario: ScenarioFile, seed: int) -> None:
        building = InstrumentBuilder(node=node, scenario=scenario, seed=seed)
        rail, inlet, bmc = node.sensors.rail, node.sensors.inlet, node.sensors.bmc
        self.driver = DriverSensors(building, kind_for(Role.DRIVER, f"nvml-{node.gpu.architecture}"))
        self.rail = RailMonitors(building, None if rail is None else kind_for(Role.RAIL, rail))
        pins = node.sensors.pins
        self.pins = None if pins is None else PinMonitors(building, kind_for(Role.PINS, pins))
        self._inlet = None if inlet is None else InletProbe(building, kind_for(Role.INLET, inlet))
        self._bmc = None if bmc is None else Bmc(building, kind_for(Role.BMC, bmc))
        self._exporter_dead_s = [
            (fault.at, np.inf if fault.last is None else fault.at + fault.last)
            for fault in scenario.sensor_faults
            if fault.sensor == EXPORTER
        ]
        self._begun = False
        self.exporter_alive = True
        self.gpu_answers: MaskArray = np.zeros(node.gpu_count, dtype=np.bool_)

    def advance(self, stretch: Stretch, state: PlantNodeState) -> None:
        """Process the true values of the last block, and the state at its end; several blocks share that state."""
        for first in range(0, len(stretch.time_ms), BLOCK_MS):
            block = stretch if len(stretch.time_ms) == BLOCK_MS else rows_of(stretch, slice(first, first + BLOCK_MS))
            self._advance(int(block.time_ms[0]), block, state)

    @property
    def inlet_c(self) -> float:
        """Air at the inlet: by its own probe, else by the board's controller, else NaN."""
        if self._inlet is not None:
            return float(self._inlet.instrument.shown[0])
        return self.bmc.inlet_c if self.bmc is not None else float("nan")

    @property
    def bmc(self) -> BmcReadings | None:
        """The newest round of the board's controller; None where there is none."""
        return None if self._bmc is None else self._bmc.readings

    def _advance(self, start_ms: int, block: Stretch, state: PlantNodeState) -> None:
        if not self._begun:
            self._begin(start_ms, block, state)
        self.exporter_alive = not any(at_s <= start_ms / 1000.0 < end_s for at_s, end_s in self._exporter_dead_s)
        anybody = state.powered and state.driver_loaded and self.exporter_alive
        self.gpu_answers = state.gpus.present.copy() if anybody else np.zeros(len(self.gpu_answers), dtype=np.bool_)
        self.driver.advance(start_ms, block, state)
        self.rail.advance(start_ms, block, state)
        if self.pins is not None:
            self.pins.advance(start_ms, block, state)
        if self._inlet is not None:
            self._inlet.advance(start_ms, state)
        if self._bmc is not None:
            self._bmc.advance(start_ms, block, state)

    def _begin(self, start_ms: int, block: Stretch, state: PlantNodeState) -> None:
        self._begun = True
        self.driver.begin(block, state)
        self.rail.begin(block, state)
        if self.pins is not None:
            self.pins.begin(block, state)
        if self._inlet is not None:
            self._inlet.begin(state)
        if self._bmc is not None:
            self._bmc.begin(start_ms, block, state)
