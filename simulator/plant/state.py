"""The truth: everything about a node at a moment, and over a stretch of milliseconds. Sensors look at this."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from telemetry.frames import FloatArray, MaskArray

CountArray = npt.NDArray[np.int64]
BitArray = npt.NDArray[np.uint64]


@dataclass(slots=True, kw_only=True, eq=False)
class GpuState:
    """All GPUs of a node, shape ``(n_gpus,)``; NVLink arrays ``(n_gpus, n_links)``. Lost GPUs keep their counts."""

    present: MaskArray
    power_w: FloatArray
    clock_mhz: FloatArray
    reasons: BitArray  # NVML clock event reasons
    die_c: FloatArray
    memory_c: FloatArray
    energy_j: FloatArray
    util_ratio: FloatArray
    mem_util_ratio: FloatArray
    pipe_ratio: FloatArray  # (n_gpus, n_pipes), in the order of `PIPES`
    memory_used_bytes: FloatArray
    counters_ms: dict[str, CountArray]  # power_violation, thermal_violation, sw_thermal, hw_thermal, power_brake
    pcie_replays: CountArray
    pcie_tx_bytes: FloatArray
    pcie_rx_bytes: FloatArray
    aer_correctable: CountArray
    aer_fatal: CountArray
    nvlink_up: MaskArray
    nvlink_crc: CountArray
    nvlink_replays: CountArray
    nvlink_recoveries: CountArray
    nvlink_bytes: FloatArray  # per link and direction; both directions carry as much
    pin_mohm: FloatArray  # (n_gpus, 6): what the path of each pin of its connector gained


@dataclass(slots=True, kw_only=True, eq=False)
class SupplyState:
    """All supplies of a node, shape ``(n_supplies,)``."""

    on: MaskArray
    current_a: FloatArray
    joint_mohm: FloatArray
    joint_c: FloatArray
    input_v: FloatArray
    output_v: FloatArray  # behind the supply's own resistance, before its cable


@dataclass(slots=True, kw_only=True, eq=False)
class PlantNodeState:
    """Node at `now_ms` of simulated time."""

    now_ms: int
    powered: bool
    driver_loaded: bool
    rail_v: float  # at the modules, the lowest of the buses
    inlet_c: float
    outlet_c: float
    fan_ratio: float
    fan_rpm: FloatArray  # (n_fans,)
    fan_power_w: float
    node_power_w: float  # what the supplies deliver
    job: str  # the workload's name
    steps: int  # training steps that have ended
    hung: bool
    nv_queue_ratio: float  # share of a CPU that the driver's kernel thread nv_queue takes
    nv_irq_ratio: float  # the same of the interrupt thread irq/NN-nvidia
    gpus: GpuState
    supplies: SupplyState
    job_number: int = 0  # jobs that began after the first
    collapsed_ms: int = 0  # for how long the load asked for more than the rail can carry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretch:
    """The truth over a stretch of time, one row per millisecond."""

    time_ms: npt.NDArray[np.int64]
    power_w: FloatArray  # (n, n_gpus)
    level: FloatArray  # (n, n_gpus)
    clock_mhz: FloatArray  # (n, n_gpus)
    bus_v: FloatArray  # (n, n_buses) at the modules
    current_a: FloatArray  # (n, n_supplies)

    @property
    def voltage_v(self) -> FloatArray:
        """Return the voltage at the modules, the lowest of the buses, ``(n,)``."""
        lowest_v: FloatArray = self.bus_v[:, 0] if self.bus_v.shape[1] == 1 else self.bus_v.min(axis=1)
        return lowest_v


def joined(stretches: Sequence[Stretch]) -> Stretch:
    """Return stretches that follow on each other as one; there must be at least one."""
    columns = {field.name: [getattr(stretch, field.name) for stretch in stretches] for field in fields(Stretch)}
    return Stretch(**{name: np.concatenate(parts) for name, parts in columns.items()})


def rows_of(stretch: Stretch, rows: slice) -> Stretch:
    """Return some rows of a stretch."""
    return Stretch(**{field.name: getattr(stretch, field.name)[rows] for field in fields(Stretch)})


def no_stretch(*, n_gpus: int, n_supplies: int, n_buses: int) -> Stretch:
    """Return the stretch of no time at all."""
    return Stretch(
        time_ms=np.empty(0, dtype=np.int64),
        power_w=np.empty((0, n_gpus)),
        level=np.empty((0, n_gpus)),
        clock_mhz=np.empty((0, n_gpus)),
        bus_v=np.empty((0, n_buses)),
        current_a=np.empty((0, n_supplies)),
    )
