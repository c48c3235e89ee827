"""From a node file to the parameters of each part of the physics."""

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.files.node import NodeFile
from simulator.plant.clocks import ClockLimits
from simulator.plant.heat import HeatModel
from simulator.plant.power import PowerModel
from simulator.plant.supply import SupplyModel


def part_power(part: GpuPart) -> PowerModel:
    """Return the power curve of a part."""
    curve = part.power
    return PowerModel(
        idle_w=curve.idle_w,
        base_w=curve.base_w,
        dynamic_w=curve.dynamic_w,
        leakage_per_k=curve.leakage_per_k,
        voltage_floor=curve.voltage_floor,
        voltage_knee=curve.voltage_knee,
        max_clock_mhz=part.clocks.max_mhz,
    )


def part_clocks(part: GpuPart) -> ClockLimits:
    """Return the clocks of a part and where heat takes them away."""
    return ClockLimits(
        supported_mhz=np.array(part.clocks.supported_mhz, dtype=np.float64),
        software_slowdown_c=part.temperature_c.gpu_max,
        hardware_slowdown_c=part.temperature_c.slowdown,
    )


def heat_model(node: NodeFile) -> HeatModel:
    """Return the way of the heat."""
    path = node.gpu.heat
    return HeatModel(
        junction_k_per_w=path.junction_k_per_w,
        heatsink_k_per_w=path.heatsink_k_per_w,
        heatsink_exponent=path.heatsink_exponent,
        die_j_per_k=path.die_j_per_k,
        heatsink_j_per_k=path.heatsink_j_per_k,
    )


def supply_model(node: NodeFile) -> SupplyModel:
    """Return the rail."""
    supply = node.supply
    return SupplyModel(
        bus_ohm=supply.bus_mohm / 1000.0,
        transient_ohm=supply.transient_mohm / 1000.0,
        transient_ms=supply.transient_ms,
    )
