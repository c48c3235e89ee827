"""Nodes with a controller, and readings made by hand."""

from dataclasses import replace

import numpy as np

from simulator.files.node import NodeFile, load_node
from simulator.files.sensor import SensorKind, load_sensor
from simulator.sensors.bmc import BmcReadings

KIND: SensorKind = load_sensor("ipmi")


def node_with_board() -> NodeFile:
    """Return the four-GPU node with a controller of its own, which the home-built one lacks."""
    node = load_node("v100x4")
    return node.model_copy(update={"sensors": node.sensors.model_copy(update={"bmc": "ipmi"})})


NODE = node_with_board()
READINGS = BmcReadings(
    at_ms=0,
    bus_v=np.array([12.033]),
    rail_v=12.033,
    inlet_c=22.0,
    outlet_c=39.0,
    node_power_w=1550.0,
    fan_rpm=np.full(NODE.cooling.fans, 12_500.0),
    psu_input_v=np.array([120.0, 119.0]),
    psu_output_v=np.array([12.285, 12.285]),
    psu_output_a=np.array([66.0, 61.0]),
    psu_ok=np.array([True, True]),
)


def readings(**changes: object) -> BmcReadings:
    """Return the readings with changes; the rail of the board is that of its one bus."""
    if "rail_v" in changes:
        changes.setdefault("bus_v", np.array([changes["rail_v"]]))
    return replace(READINGS, **changes)  # type: ignore[arg-type]  # names and types are those of the readings
