"""Sensors of many nodes: each board's own gain and offset, noise, steps, and gaps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile, SensorFaultKind
from simulator.files.sensor import Channel, SensorKind, load_sensor
from simulator.fleet.stretch import SAMPLES
from simulator.sensors.columns import ColumnFault, faults_of
from telemetry.frames import FloatArray, MaskArray

_ERROR_MAX_SD = 2.0  # as in the first tier: no board is further off than twice the standard deviation
_FINEST = 1e-9  # step where none is given: finer than any reader resolves
_DRIVER = ("gpu_power_w", "gpu_temp_c", "hbm_temp_c")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrueValues:
    """True values when the sensors are read, ``(SAMPLES, n_nodes, n_things)``; one thing where it is the node's."""

    gpu_power_w: FloatArray
    gpu_temp_c: FloatArray
    hbm_temp_c: FloatArray
    rail_v: FloatArray  # of each supply's bus
    board_v: FloatArray  # of the bus that feeds the board's controller
    output_v: FloatArray  # of the supplies
    current_a: FloatArray
    joint_c: FloatArray
    inlet_c: FloatArray
    node_power_w: FloatArray
    answering: MaskArray  # (n_nodes, n_gpus), GPUs that the driver finds
    powered: MaskArray  # (n_nodes,)


class FleetSensors:
    """The sensors of a group of nodes that have the same kinds of them."""

    def __init__(
        self,
        nodes: Sequence[NodeFile],
        scenarios: Sequence[ScenarioFile],
        *,
        chance: np.random.Generator,
        fault_chance: np.random.Generator,
    ) -> None:
        self._columns = _columns(nodes[0], len(nodes), chance)
        self._chance = chance
        self._fault_chance = fault_chance
        rail = nodes[0].sensors.rail
        self._at_supply = rail is not None and load_sensor(rail).place == "supply"
        self._faults = [
            (row, fault, name)
            for row, (node, scenario) in enumerate(zip(nodes, scenarios, strict=True))
            if scenario.sensor_faults
            for name, column in self._columns.items()
            for fault in faults_of(scenario, node, column.labels)
        ]
        self._exporter = [
            (row, fault)
            for row, (node, scenario) in enumerate(zip(nodes, scenarios, strict=True))
            if scenario.sensor_faults
            for fault in faults_of(scenario, node, ["exporter"])
        ]
        self._held: dict[int, FloatArray] = {}

    def read(self, time_s: float, moment: TrueValues) -> dict[str, FloatArray]:
        """Return the value of each sensor at the samples of the step that begins at `time_s`, by `FleetSamples` field.

        Faults are taken as they stand at the beginning of the step; a stuck sensor shows what it showed last.
        """
        true = {
            "gpu_power_w": moment.gpu_power_w,
            "gpu_temp_c": moment.gpu_temp_c,
            "hbm_temp_c": moment.hbm_temp_c,
            "rail_voltage_v": moment.output_v if self._at_supply else moment.rail_v,
            "rail_current_a": moment.current_a,
            "joint_temp_c": moment.joint_c,
            "inlet_temp_c": moment.inlet_c,
            "bmc_rail_voltage_v": moment.board_v,
            "bmc_inlet_temp_c": moment.inlet_c,
            "bmc_node_power_w": moment.node_power_w,
        }
        shown = {name: column.show(true[name], self._chance) for name, column in self._columns.items()}
        for name in _DRIVER:
            shown[name][:, ~moment.answering] = np.nan
        for name, values in shown.items():
            if not name.startswith("bmc"):  # the board's controller lives on standby power
                values[:, ~moment.powered] = np.nan
        self._spoil(time_s * 1000.0, shown)
        return shown

    def _spoil(self, time_ms: float, shown: dict[str, FloatArray]) -> None:
        for index, (row, fault, name) in enumerate(self._faults):
            if not fault.start_ms <= time_ms < fault.end_ms:
                continue
            values = shown[name][:, row, fault.columns]
            held = self._held.setdefault(index, values[:1].copy())
            luck = self._fault_chance.random(values.shape)
            shown[name][:, row, fault.columns] = _spoiled(fault, values, held, luck)
        for row, fault in self._exporter:
            if fault.start_ms <= time_ms < fault.end_ms:
                for name in _DRIVER:
                    shown[name][:, row] = np.nan


def _spoiled(fault: ColumnFault, values: FloatArray, held: FloatArray, luck: FloatArray) -> FloatArray:
    match fault.kind:
        case SensorFaultKind.STUCK | SensorFaultKind.STALE:
            return np.broadcast_to(held, values.shape)
        case SensorFaultKind.GAIN:
            return values * fault.value
        case SensorFaultKind.OFFSET:
            return values + fault.value
        case SensorFaultKind.LOSS:
            return np.where(luck < fault.value, np.nan, values)
        case SensorFaultKind.DEAD:
            return np.full_like(values, np.nan)
        case SensorFaultKind.SKEW:
            return values  # samples are minutes apart: seconds do not show


class _Column:
    """Signal of all nodes; each board with its own errors, drawn once."""

    def __init__(
        self,
        kind: SensorKind | None,
        channel: Channel | None,
        labels: Sequence[str],
        n_nodes: int,
        chance: np.random.Generator,
    ) -> None:
        error = np.clip(chance.standard_normal((2, n_nodes, len(labels))), -_ERROR_MAX_SD, _ERROR_MAX_SD)
        self.labels = tuple(labels)
        self._channel = channel
        self._missing_share = 0.0 if kind is None else kind.missing_share
        if channel is not None:
            self._gain = 1.0 + channel.gain_error * error[0]
            self._offset = channel.offset_error * error[1]

    def show(self, true: FloatArray, chance: np.random.Generator) -> FloatArray:
        """Return the shown values; the number of random draws does not depend on them."""
        channel = self._channel
        true = np.broadcast_to(true, (SAMPLES, *true.shape[1:]))
        if channel is None:
            return np.full(true.shape, np.nan)
        value = true * self._gain + self._offset
        if channel.noise > 0.0:
            value = value + channel.noise * chance.standard_normal(value.shape)
        quantum = channel.quantum or _FINEST
        value = np.clip(quantum * np.rint(value / quantum), channel.lowest, channel.highest)
        missing = chance.random(value.shape) < self._missing_share
        shown: FloatArray = np.where(missing, np.nan, value)
        return shown


def _columns(node: NodeFile, n_nodes: int, chance: np.random.Generator) -> dict[str, _Column]:
    gpus = [f"gpu{index}" for index in range(node.gpu_count)]
    supplies = [unit.name for unit in node.supply.units]
    driver = load_sensor(f"nvml-{node.gpu.architecture}")
    rail, inlet, bmc = (
        None if name is None else load_sensor(name)
        for name in (node.sensors.rail, node.sensors.inlet, node.sensors.bmc)
    )
    board = node.gpu.sensor
    power = Channel(gain_error=board.gain_error, quantum=board.quantum_w)

    def column(kind: SensorKind | None, signal: str, owners: Sequence[str]) -> _Column:
        channel = None if kind is None else kind.channels.get(signal, power if signal == "power_w" else None)
        label = "power_w" if signal == "node_power_w" else signal
        return _Column(kind, channel, [f"{owner}.{label}" for owner in owners], n_nodes, chance)

    return {
        "gpu_power_w": column(driver, "power_w", gpus),
        "gpu_temp_c": column(driver, "gpu_temp_c", gpus),
        "hbm_temp_c": column(driver, "hbm_temp_c", gpus),
        "rail_voltage_v": column(rail, "voltage_v", supplies),
        "rail_current_a": column(rail, "current_a", supplies),
        "joint_temp_c": column(rail, "joint_temp_c", supplies),
        "inlet_temp_c": column(inlet, "inlet_temp_c", ["node"]),
        "bmc_rail_voltage_v": column(bmc, "rail_voltage_v", ["node"]),
        "bmc_inlet_temp_c": column(bmc, "inlet_temp_c", ["node"]),
        "bmc_node_power_w": column(bmc, "node_power_w", ["node"]),
    }
