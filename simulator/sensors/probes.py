"""Sensors of the board itself: the monitors of the supplies' branches, the probe in the inlet."""

import numpy as np

from simulator.files.sensor import SensorKind
from simulator.plant.state import CountArray, NodeState, Stretch
from simulator.sensors.building import Building
from simulator.sensors.instrument import Instrument
from simulator.sensors.turns import STEP_MS
from telemetry.frames import FloatArray

_FAST = ("voltage_v", "current_a")


class RailMonitors:
    """One monitor per branch, or the supplies' own over PMBus; none where `kind` is None.

    Attributes
    ----------
    fast, slow
        The instruments: voltage and current, and what else the kind has.
    voltage_v, current_a, joint_temp_c, input_voltage_v, power_w
        What they show, shape ``(n_supplies,)``; NaN where the kind does not measure it.
    """

    def __init__(self, building: Building, kind: SensorKind | None) -> None:
        names = [unit.name for unit in building.node.supply.units]
        self._count = len(names)
        self._at_supply = kind is not None and kind.place == "supply"
        self.fast: Instrument | None = None
        self.slow: tuple[Instrument, ...] = ()
        nothing = np.full(self._count, np.nan)
        self.voltage_v = self.current_a = self.joint_temp_c = self.input_voltage_v = self.power_w = nothing
        self.at_ms: CountArray = np.zeros(self._count, dtype=np.int64)
        self.signals: tuple[str, ...] = () if kind is None else tuple(kind.channels)
        if kind is None:
            return
        channels = [(name, [f"{supply}.{name}" for supply in names]) for name in kind.channels]
        (self.fast,) = building.instruments(kind, [channel for channel in channels if channel[0] in _FAST])
        self.voltage_v, self.current_a = self.fast.shown[: self._count], self.fast.shown[self._count :]
        self.at_ms = self.fast.at_ms[: self._count]
        slow = [channel for channel in channels if channel[0] not in _FAST]
        self.slow = tuple(building.instruments(kind, [channel])[0] for channel in slow)
        for (name, _), instrument in zip(slow, self.slow, strict=True):
            setattr(self, name, instrument.shown)

    def begin(self, block: Stretch, state: NodeState) -> None:
        """Show everything at once."""
        if self.fast is not None:
            self.fast.begin(self._block(block, state)[0])
        for instrument in self.slow:
            instrument.begin(_slow_truth(instrument, state))

    def advance(self, start_ms: int, block: Stretch, state: NodeState) -> None:
        """Take a block; nobody reads the monitors of a node that is off."""
        if self.fast is None:
            return
        answering = None if state.powered else np.zeros(2 * self._count, dtype=np.bool_)
        self.fast.advance(start_ms, self._block(block, state), answering=answering)
        for instrument in self.slow:
            if state.powered and instrument.awaits(start_ms):
                instrument.advance(start_ms, _slow_truth(instrument, state))
            else:
                instrument.rest()

    def _block(self, block: Stretch, state: NodeState) -> FloatArray:
        """Give voltages and then currents, ``(10, 2 n_supplies)``."""
        true = np.empty((STEP_MS, 2 * self._count))
        true[:, : self._count] = state.supplies.output_v if self._at_supply else block.voltage_v[:, None]
        true[:, self._count :] = block.current_a
        return true


class InletProbe:
    """The thermometer in the inlet."""

    def __init__(self, building: Building, kind: SensorKind) -> None:
        (self.instrument,) = building.instruments(kind, [("inlet_temp_c", ["node.inlet_temp_c"])])

    def begin(self, state: NodeState) -> None:
        """Show it at once."""
        self.instrument.begin(np.array([state.inlet_c]))

    def advance(self, start_ms: int, state: NodeState) -> None:
        """Take a block; nobody reads the probe of a node that is off."""
        if state.powered and self.instrument.awaits(start_ms):
            self.instrument.advance(start_ms, np.array([state.inlet_c]))
        else:
            self.instrument.rest()


def _slow_truth(instrument: Instrument, state: NodeState) -> FloatArray:
    supplies = state.supplies
    signal = instrument.labels[0].partition(".")[2]
    if signal == "joint_temp_c":
        return supplies.joint_c
    if signal == "input_voltage_v":
        return supplies.input_v
    return supplies.output_v * supplies.current_a
