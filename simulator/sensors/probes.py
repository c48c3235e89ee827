"""Sensors of the boards by the driver, of the supplies' branches by their monitors, and of the inlet."""

from collections.abc import Sequence

import numpy as np

from simulator.files.sensor import SensorKind
from simulator.plant.plant import BLOCK_MS
from simulator.plant.state import GpuState, PlantNodeState, Stretch
from simulator.sensors.instrument import Instrument, signals_of, view_of
from simulator.sensors.instrument_builder import REQUIRED, InstrumentBuilder, Role
from telemetry.frames import FloatArray

_FAST = REQUIRED[Role.RAIL]
_SLOW = REQUIRED[Role.DRIVER]  # its power sensors belong to the GPU part


class RailMonitors:
    """Monitor per branch, or the supplies' own over PMBus; none where `kind` is None.

    Attributes
    ----------
    fast
        The instrument of voltage and current, None where there is none.
    shown
        What they show of each signal that the kind measures, each of shape ``(n_supplies,)``.
    voltage_v, current_a
        The same of the two that every kind measures; NaN where there is no kind.
    """

    def __init__(self, building: InstrumentBuilder, kind: SensorKind | None) -> None:
        names = [unit.name for unit in building.node.supply.units]
        self._count = len(names)
        self._bus = np.array(building.node.wiring.of_supply, dtype=np.intp)
        self._at_supply = kind is not None and kind.place == "supply"
        self.fast: Instrument | None = None
        self._slow: tuple[Instrument, ...] = ()
        self.shown: dict[str, FloatArray] = {}
        if kind is not None:
            labels = {signal: [f"{name}.{signal}" for name in names] for signal in kind.channels}
            (self.fast,) = building.instruments(kind, [(signal, labels[signal]) for signal in _FAST])
            slow = [building.instruments(kind, [item]) for item in labels.items() if item[0] not in _FAST]
            self._slow = tuple(instrument for (instrument,) in slow)
            instruments = (self.fast, *self._slow)
            self.shown = {signal: view_of(instruments, of_signal) for signal, of_signal in labels.items()}
        nothing = np.full(self._count, np.nan)
        self.voltage_v = self.shown.get("voltage_v", nothing)
        self.current_a = self.shown.get("current_a", nothing)

    def begin(self, block: Stretch, state: PlantNodeState) -> None:
        """Show everything at once."""
        if self.fast is not None:
            self.fast.begin(self._block(block, state)[0])
        for instrument in self._slow:
            instrument.begin(_slow_truth(instrument, state))

    def advance(self, start_ms: int, block: Stretch, state: PlantNodeState) -> None:
        """Process a block; the monitors of a node that is off are not read."""
        if self.fast is None:
            return
        answering = None if state.powered else np.zeros(2 * self._count, dtype=np.bool_)
        self.fast.advance(start_ms, self._block(block, state), answering=answering)
        for instrument in self._slow:
            if state.powered and instrument.awaits(start_ms):
                instrument.advance(start_ms, _slow_truth(instrument, state))
            else:
                instrument.rest()

    def _block(self, block: Stretch, state: PlantNodeState) -> FloatArray:
        """Return voltages and then currents, ``(10, 2 n_supplies)``."""
        true = np.empty((BLOCK_MS, 2 * self._count))
        true[:, : self._count] = state.supplies.output_v if self._at_supply else block.bus_v[:, self._bus]
        true[:, self._count :] = block.current_a
        return true


class InletProbe:
    """The thermometer in the inlet."""

    def __init__(self, building: InstrumentBuilder, kind: SensorKind) -> None:
        (self.instrument,) = building.instruments(kind, [("inlet_temp_c", ["node.inlet_temp_c"])])

    def begin(self, state: PlantNodeState) -> None:
        """Show it at once."""
        self.instrument.begin(np.array([state.inlet_c]))

    def advance(self, start_ms: int, state: PlantNodeState) -> None:
        """Process a block; the probe of a node that is off is not read."""
        if state.powered and self.instrument.awaits(start_ms):
            self.instrument.advance(start_ms, np.array([state.inlet_c]))
        else:
            self.instrument.rest()


def _slow_truth(instrument: Instrument, state: PlantNodeState) -> FloatArray:
    supplies = state.supplies
    (signal,) = signals_of(instrument)
    if signal == "joint_temp_c":
        return supplies.joint_c
    if signal == "input_voltage_v":
        return supplies.input_v
    return supplies.output_v * supplies.current_a


class DriverSensors:
    """The sensors of all boards.

    Attributes
    ----------
    power, average
        The power sensors, and the longer mean; the same where the part has none.
    gpu_temp_c, hbm_temp_c
        Whole degrees of each die and of each GPU's memory, shape ``(n_gpus,)``.
    gpu_util_ratio, mem_util_ratio
        Share of time in which a kernel ran, and in which memory was busy, in whole per cent.
    """

    def __init__(self, building: InstrumentBuilder, kind: SensorKind) -> None:
        self.power, average = building.board_power(kind)
        self.average = average or self.power
        labels = {signal: [f"gpu{index}.{signal}" for index in range(building.node.gpu_count)] for signal in _SLOW}
        instruments = building.instruments(kind, list(labels.items()))
        self._slow = [(instrument, signals_of(instrument)) for instrument in instruments]
        self.gpu_temp_c = view_of(instruments, labels["gpu_temp_c"])
        self.hbm_temp_c = view_of(instruments, labels["hbm_temp_c"])
        self.gpu_util_ratio = view_of(instruments, labels["gpu_util_ratio"])
        self.mem_util_ratio = view_of(instruments, labels["mem_util_ratio"])

    def begin(self, block: Stretch, state: PlantNodeState) -> None:
        """Show everything at once."""
        for instrument in {self.power, self.average}:
            instrument.begin(block.power_w[0])
        for instrument, signals in self._slow:
            instrument.begin(_true(signals, state.gpus))

    def advance(self, start_ms: int, block: Stretch, state: PlantNodeState) -> None:
        """Process a block; an absent GPU keeps its last values."""
        present = state.gpus.present
        answering = None if present.all() else present
        self.power.advance(start_ms, block.power_w, answering=answering)
        if self.average is not self.power:
            self.average.advance(start_ms, block.power_w, answering=answering)
        for instrument, signals in self._slow:
            if instrument.awaits(start_ms):
                every = None if answering is None else np.tile(present, len(signals))
                instrument.advance(start_ms, _true(signals, state.gpus), answering=every)
            else:
                instrument.rest()


def _true(signals: Sequence[str], gpus: GpuState) -> FloatArray:
    """Return the true values of some signals, one after another."""
    truths = {
        "gpu_temp_c": gpus.die_c,
        "hbm_temp_c": gpus.memory_c,
        "gpu_util_ratio": gpus.util_ratio,
        "mem_util_ratio": gpus.mem_util_ratio,
    }
    return np.concatenate([truths[signal] for signal in signals])
