"""Truths made by hand, for sensors to look at."""

import numpy as np

from simulator.driver.layout import PIPES
from simulator.files.node import NodeFile
from simulator.plant.state import GpuState, PlantNodeState, Stretch, SupplyState
from telemetry.frames import FloatArray


def state_of(node: NodeFile, *, die_c: float = 50.0) -> PlantNodeState:
    """Return a node at work, everything in order."""
    n, links, supplies = node.gpu_count, node.gpu.nvlink_count, len(node.supply.units)
    counts = np.zeros(n, dtype=np.int64)
    gpus = GpuState(
        present=np.ones(n, dtype=np.bool_),
        power_w=np.full(n, 300.0),
        clock_mhz=np.full(n, node.gpu.clocks.max_mhz),
        reasons=np.zeros(n, dtype=np.uint64),
        die_c=np.full(n, die_c),
        memory_c=np.full(n, die_c + 3.0),
        energy_j=np.zeros(n),
        util_ratio=np.ones(n),
        mem_util_ratio=np.full(n, 0.6),
        pipe_ratio=np.zeros((n, len(PIPES))),
        memory_used_bytes=np.full(n, 1e10),
        counters_ms={
            name: counts.copy()
            for name in ("power_violation", "thermal_violation", "sw_thermal", "hw_thermal", "power_brake")
        },
        pcie_replays=counts.copy(),
        pcie_tx_bytes=np.zeros(n),
        pcie_rx_bytes=np.zeros(n),
        aer_correctable=counts.copy(),
        aer_fatal=counts.copy(),
        nvlink_up=np.ones((n, links), dtype=np.bool_),
        nvlink_crc=np.zeros((n, links), dtype=np.int64),
        nvlink_replays=np.zeros((n, links), dtype=np.int64),
        nvlink_recoveries=np.zeros((n, links), dtype=np.int64),
        nvlink_bytes=np.zeros((n, links)),
        pin_mohm=np.zeros((n, 6)),
    )
    units = SupplyState(
        on=np.ones(supplies, dtype=np.bool_),
        current_a=np.full(supplies, 60.0),
        joint_mohm=np.full(supplies, 3.4),
        joint_c=np.full(supplies, 45.0),
        input_v=np.full(supplies, 120.0),
        output_v=np.full(supplies, 12.2),
    )
    return PlantNodeState(
        now_ms=0,
        powered=True,
        driver_loaded=True,
        rail_v=12.06,
        inlet_c=22.2,
        outlet_c=35.0,
        fan_ratio=0.5,
        fan_rpm=np.full(node.cooling.fans, 12500.0),
        fan_power_w=20.0,
        node_power_w=1450.0,
        job="ddp",
        steps=0,
        hung=False,
        nv_queue_ratio=0.0,
        nv_irq_ratio=0.0,
        gpus=gpus,
        supplies=units,
    )


def stretch_of(
    node: NodeFile,
    start_ms: int,
    *,
    power_w: FloatArray | float = 300.0,
    voltage_v: FloatArray | float = 12.06,
    current_a: FloatArray | float = 60.0,
    n_ms: int = 10,
) -> Stretch:
    """Return a block; what is one number or one row holds for all of it."""
    gpus, supplies = (n_ms, node.gpu_count), (n_ms, len(node.supply.units))
    return Stretch(
        time_ms=np.arange(start_ms, start_ms + n_ms),
        power_w=np.broadcast_to(power_w, gpus).copy(),
        level=np.ones(gpus),
        clock_mhz=np.full(gpus, node.gpu.clocks.max_mhz),
        bus_v=np.broadcast_to(voltage_v, (n_ms, len(node.wiring.buses))).copy(),
        current_a=np.broadcast_to(current_a, supplies).copy(),
    )
