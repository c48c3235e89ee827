"""Sensors of a node by name: ``gpu2.power_w``, ``psu0.voltage_v``, ``node.inlet_temp_c``."""

import math
import re
from collections.abc import Sequence
from enum import StrEnum

from simulator.files.node import NodeFile
from simulator.files.sensor import load_sensor
from telemetry.catalogue.pins import PIN_CURRENTS, PIN_VOLTAGES

EXPORTER = "exporter"
ALL_PINS = "pins"  # every pin of a connector: its monitor
GPU_SIGNALS = ("power_w", "gpu_temp_c", "hbm_temp_c", "gpu_util_ratio", "mem_util_ratio")


class SensorFaultKind(StrEnum):
    """Kinds of sensor fault."""

    STUCK = "stuck"  # repeats the last value as if it were new
    STALE = "stale"  # repeats the last value with its old time
    GAIN = "gain"  # multiplies by `value`
    OFFSET = "offset"  # adds `value`
    SKEW = "skew"  # shows what was true `value` seconds ago
    LOSS = "loss"  # loses the share `value` of its updates
    DEAD = "dead"  # gives nothing


# What the board's controller measures, and whose it is; the name of a bus, supply or fan is where the braces are.
BMC_LABELS = {
    "rail_voltage_v": "{bus}.rail_voltage_v",
    "inlet_temp_c": "node.inlet_temp_c",
    "outlet_temp_c": "node.outlet_temp_c",
    "node_power_w": "node.power_w",
    "fan_rpm": "{fan}.fan_rpm",
    "psu_input_v": "{supply}.input_voltage_v",
    "psu_output_v": "{supply}.output_voltage_v",
    "psu_output_a": "{supply}.output_current_a",
}
_PLURALS = {"gpus": "gpu", "supplies": "supply", "fans": "fan"}
# What a fault's `value` must be; the other kinds have none.
_VALUES = {
    "gain": ("a factor", -math.inf, math.inf),
    "offset": ("what is added", -math.inf, math.inf),
    "skew": ("seconds, up to 60", 0.0, 60.0),
    "loss": ("a share from 0 to 1", 0.0, 1.0),
}


def sensor_labels(node: NodeFile) -> tuple[str, ...]:
    """Return the names of all sensors of a node: ``gpu2.power_w``, ``psu0.voltage_v``, ``node.inlet_temp_c``."""
    supplies = [unit.name for unit in node.supply.units]
    fans = [f"fan{index}" for index in range(node.cooling.fans)]
    labels = [f"gpu{index}.{signal}" for index in range(node.gpu_count) for signal in GPU_SIGNALS]
    if node.sensors.pins is not None:
        labels += [label for of_signal in pin_labels(node) for label in of_signal]
    if node.sensors.rail is not None:
        labels += [f"{name}.{channel}" for name in supplies for channel in load_sensor(node.sensors.rail).channels]
    if node.sensors.inlet is not None:
        labels += [f"node.{channel}" for channel in load_sensor(node.sensors.inlet).channels]
    if node.sensors.bmc is not None:
        for channel in load_sensor(node.sensors.bmc).channels:
            labels += bmc_labels(channel, buses=node.wiring.buses, supplies=supplies, fans=fans)
    return tuple(dict.fromkeys(labels))


def pin_labels(node: NodeFile) -> tuple[list[str], list[str]]:
    """Return the names of the voltages and of the currents of all pins, GPU by GPU: ``gpu0.pin3_voltage_v``."""
    voltages = [f"gpu{index}.{name}" for index in range(node.gpu_count) for name in PIN_VOLTAGES]
    currents = [f"gpu{index}.{name}" for index in range(node.gpu_count) for name in PIN_CURRENTS]
    return voltages, currents


def board_rails(node: NodeFile) -> tuple[str, ...]:
    """Return the names of the controller's readings of the rail of each bus: ``P54V``, of several ``P54V_A``."""
    name, buses = f"P{round(node.supply.nominal_rail_v)}V", node.wiring.buses
    return (name,) if len(buses) == 1 else tuple(f"{name}_{chr(ord('A') + place)}" for place in range(len(buses)))


def bmc_labels(channel: str, *, buses: Sequence[str], supplies: Sequence[str], fans: Sequence[str]) -> list[str]:
    """Return the names of what the board's controller measures in one channel; ValueError for one that is unknown."""
    pattern = BMC_LABELS.get(channel)
    if pattern is None:
        raise ValueError(f"one of {', '.join(BMC_LABELS)}")
    if "{bus}" in pattern:  # the only rail of a board is its node's
        return [pattern.format(bus=name) for name in (buses if len(buses) > 1 else ["node"])]
    if "{supply}" in pattern:
        return [pattern.format(supply=name) for name in supplies]
    if "{fan}" in pattern:
        return [pattern.format(fan=name) for name in fans]
    return [pattern]


def check_sensor(name: str, node: NodeFile) -> tuple[str, ...]:
    """Return the sensors that a name selects; ValueError, naming what was expected, where there is none."""
    labels = sensor_labels(node)
    if name == EXPORTER:
        return (EXPORTER,)
    if name in labels:
        return (name,)
    entity, _, signal = name.partition(".")
    of_kind = _kind_pattern(entity, node)
    found = tuple(label for label in labels if of_kind.fullmatch(label.partition(".")[0]))
    if signal == ALL_PINS and (pins := tuple(label for label in found if ".pin" in label)):
        return pins
    found = tuple(label for label in found if label.partition(".")[2] == signal)
    if entity in _PLURALS and found:
        return found
    signals = sorted({label.partition(".")[2] for label in labels if of_kind.fullmatch(label.partition(".")[0])})
    if signals:
        raise ValueError(f"a sensor of {entity}: {', '.join(signals)}")
    raise ValueError("exporter, or an entity that has sensors and one of them, such as gpu0.power_w or gpus.power_w")


def check_value(name: str, fault: str, value: float | None) -> None:
    """Refuse a fault whose value does not fit its kind with a ValueError that names what was expected."""
    if name == EXPORTER and fault != "dead":
        raise ValueError("dead as the fault, the only thing an exporter can be")
    wanted = _VALUES.get(fault)
    if wanted is None:
        if value is not None:
            raise ValueError(f"no value where the fault is {fault}")
        return
    fields, lowest, highest = wanted
    if value is None or not lowest <= value <= highest:
        raise ValueError(f"{fields} where the fault is {fault}")


def _kind_pattern(entity: str, node: NodeFile) -> re.Pattern[str]:
    kind = _PLURALS.get(entity)
    if kind == "supply":
        return re.compile("|".join(re.escape(unit.name) for unit in node.supply.units))
    return re.compile(rf"{kind}\d+" if kind else re.escape(entity))
