"""A node as it is when a simulation begins: warm, in balance under its workload."""

import numpy as np

from simulator.driver.layout import PIPES
from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity
from simulator.files.workload import Hpc, Inference, Training, Workload
from simulator.plant.driver_counters import COUNTED
from simulator.plant.power import REFERENCE_C, PowerModel
from simulator.plant.state import GpuState, PlantNodeState, SupplyState
from simulator.plant.timeline import Values
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.frames import FloatArray


def starting_power_w(node: NodeFile, power: PowerModel, workload: Workload) -> FloatArray:
    """Return the mean power of each GPU under a workload, within the default power limit, ``(n_gpus,)``."""
    levels = np.array([level for level, _ in _shares(workload)])
    shares = np.array([share for _, share in _shares(workload)])
    clock_mhz = np.full(len(levels), node.gpu.clocks.max_mhz)
    power_w = power.power_w(clock_mhz, levels, np.full(len(levels), REFERENCE_C), workload.input_factor)
    power_w = np.minimum(power_w, node.gpu.power_limit_w.default)
    return np.full(node.gpu_count, float(power_w @ shares))


def _shares(workload: Workload) -> list[tuple[float, float]]:
    """Return levels and the shares of time spent at them."""
    if isinstance(workload, Training):
        share = workload.exchange_share
        return [(1.0, 1.0 - share), (workload.exchange_level, share)]
    if isinstance(workload, Inference):
        prefill = workload.requests_per_s * sum(workload.prefill_s) / 2.0
        decode = workload.requests_per_s * sum(workload.decode_s) / 2.0
        busy = max(prefill + decode, 1.0)
        prefill, decode = prefill / busy, decode / busy
        decode_level = sum(workload.decode_level) / 2.0
        waiting = (workload.waiting_level, 1.0 - prefill - decode)
        return [(workload.prefill_level, prefill), (decode_level, decode), waiting]
    if isinstance(workload, Hpc):
        return [(sum(workload.level) / 2.0, 1.0)]
    return [(0.0, 1.0)]  # idle, or a recording that has not been analysed yet


def starting_state(node: NodeFile, values: Values, *, power_w: FloatArray) -> PlantNodeState:
    """Return the state at time zero; temperatures, voltages and currents still stand at those of an unloaded node."""
    n_units = len(node.supply.units)
    inlet_c = float(values[Quantity.INLET_C][0])
    return PlantNodeState(
        now_ms=0,
        powered=True,
        driver_loaded=True,
        rail_v=float(values[Quantity.OPEN_CIRCUIT_V].max()),
        inlet_c=inlet_c,
        outlet_c=inlet_c,
        fan_ratio=node.cooling.start_ratio,
        fan_rpm=np.full(node.cooling.fans, node.cooling.start_ratio * node.cooling.max_rpm),
        fan_power_w=0.0,
        node_power_w=0.0,
        job="",
        steps=0,
        hung=False,
        nv_queue_ratio=0.0,
        nv_irq_ratio=0.0,
        gpus=_starting_gpus(node, power_w),
        supplies=SupplyState(
            on=np.ones(n_units, dtype=np.bool_),
            current_a=np.zeros(n_units),
            joint_mohm=values[Quantity.JOINT_MOHM].copy(),
            joint_c=np.full(n_units, inlet_c),
            input_v=node.supply.input.nominal_v * values[Quantity.INPUT_RATIO],
            output_v=values[Quantity.OPEN_CIRCUIT_V].copy(),
        ),
    )


def _starting_gpus(node: NodeFile, power_w: FloatArray) -> GpuState:
    n_gpus = node.gpu_count
    links = (n_gpus, node.gpu.nvlink_count)
    return GpuState(
        present=np.ones(n_gpus, dtype=np.bool_),
        power_w=power_w.copy(),
        clock_mhz=np.full(n_gpus, node.gpu.clocks.max_mhz),
        reasons=np.zeros(n_gpus, dtype=np.uint64),
        die_c=np.full(n_gpus, node.inlet_c),
        memory_c=np.full(n_gpus, node.inlet_c),
        energy_j=np.zeros(n_gpus),
        util_ratio=np.zeros(n_gpus),
        mem_util_ratio=np.zeros(n_gpus),
        pipe_ratio=np.zeros((n_gpus, len(PIPES))),
        memory_used_bytes=np.full(n_gpus, float(node.gpu.memory_reserved_bytes)),
        counters_ms={name: np.zeros(n_gpus, dtype=np.int64) for name in COUNTED},
        pcie_replays=np.zeros(n_gpus, dtype=np.int64),
        pcie_tx_bytes=np.zeros(n_gpus),
        pcie_rx_bytes=np.zeros(n_gpus),
        aer_correctable=np.zeros(n_gpus, dtype=np.int64),
        aer_fatal=np.zeros(n_gpus, dtype=np.int64),
        nvlink_up=np.full(links, node.fabric != "none"),
        nvlink_crc=np.zeros(links, dtype=np.int64),
        nvlink_replays=np.zeros(links, dtype=np.int64),
        nvlink_recoveries=np.zeros(links, dtype=np.int64),
        nvlink_bytes=np.zeros(links),
        pin_mohm=np.zeros((n_gpus, PIN_COUNT)),
    )
