"""Carries a plant into the state file, and what setters asked for back into the plant."""

from typing import Any

import numpy as np

from simulator.driver.layout import FEATURE_LOCKED_CLOCKS, FEATURE_TLIMIT, LOST, LOST_AND_TOLD, READING
from simulator.driver.state import XID_EVENT, StateArray, StateFile
from simulator.files.node import NodeFile
from simulator.plant.clocks import Settings
from simulator.plant.plant import Plant, default_settings

ARCHITECTURES = {"volta": 5, "ampere": 7, "hopper": 9, "blackwell": 10}  # NVML_DEVICE_ARCH_..., nvml.h
VOLTA = ARCHITECTURES["volta"]  # the first with locked clocks
NS_PER_MS = 1_000_000
US_PER_MS = 1000


def describe_node(state: StateFile, node: NodeFile, *, clocks_unrestricted: bool) -> None:
    """Write everything that stays, and the settings of a driver that was just loaded."""
    record = state.record
    record["gpu_count"] = node.gpu_count
    record["driver_version"] = node.driver.version.encode()
    record["nvml_version"] = node.driver.nvml_version.encode()
    record["cuda_version"] = node.driver.cuda_version
    record["clocks_unrestricted"] = clocks_unrestricted
    for index in range(node.gpu_count):
        _describe_gpu(record["fixed"][index], node, index)
        request = record["request"][index]
        request["power_limit_mw"] = round(node.gpu.power_limit_w.default * 1000)
        request["persistence"] = 1
        request["app_sm_clock_mhz"] = node.gpu.clocks.default_mhz


def _describe_gpu(fixed: Any, node: NodeFile, index: int) -> None:
    gpu, clocks = node.gpu, node.gpu.clocks
    domain, bus, device = node.slots[index].pci.removesuffix(".0").split(":")
    margins = gpu.tlimit_c
    features = (FEATURE_TLIMIT if margins else 0) | (
        FEATURE_LOCKED_CLOCKS if ARCHITECTURES[gpu.architecture] >= VOLTA else 0
    )
    values = {
        "uuid": node.gpu_uuid(index).encode(),
        "name": gpu.name.encode(),
        "serial": node.gpu_serial(index).encode(),
        "pci_domain": int(domain, 16),
        "pci_bus": int(bus, 16),
        "pci_device": int(device, 16),
        "pci_device_id": gpu.pci_device_id,
        "pci_subsystem_id": gpu.pci_subsystem_id,
        "minor_number": index,
        "brand": gpu.brand,
        "architecture": ARCHITECTURES[gpu.architecture],
        "cuda_major": gpu.compute_capability[0],
        "cuda_minor": gpu.compute_capability[1],
        "core_count": gpu.core_count,
        "memory_bus_bits": gpu.memory_bus_bits,
        "nvlink_count": gpu.nvlink_count,
        "features": features,
        "memory_total_bytes": gpu.memory_total_bytes,
        "memory_reserved_bytes": gpu.memory_reserved_bytes,
        "bar1_total_bytes": gpu.bar1_total_bytes,
        "power_min_mw": round(gpu.power_limit_w.min * 1000),
        "power_max_mw": round(gpu.power_limit_w.max * 1000),
        "power_default_mw": round(gpu.power_limit_w.default * 1000),
        "shutdown_c": gpu.temperature_c.shutdown,
        "slowdown_c": gpu.temperature_c.slowdown,
        "memory_max_c": gpu.temperature_c.memory_max,
        "gpu_max_c": gpu.temperature_c.gpu_max,
        "tlimit_shutdown_c": margins.shutdown if margins else 0,
        "tlimit_slowdown_c": margins.slowdown if margins else 0,
        "tlimit_memory_max_c": margins.memory_max if margins else 0,
        "tlimit_gpu_max_c": margins.gpu_max if margins else 0,
        "pcie_generation_max": gpu.pcie_generation,
        "pcie_width_max": gpu.pcie_width,
        "default_sm_clock_mhz": clocks.default_mhz,
        "max_sm_clock_mhz": clocks.supported_mhz[-1],
        "mem_clock_mhz": clocks.memory_mhz,
        "max_video_clock_mhz": clocks.video_max_mhz,
        "clock_count": len(clocks.supported_mhz),
    }
    for name, value in values.items():
        fixed[name] = value
    fixed["clocks_mhz"][: len(clocks.supported_mhz)] = clocks.supported_mhz[::-1]


class PlantPublisher:
    """Keeps a state file in step with a plant.

    `start_us` is the UTC time, in microseconds, at which the plant's time is zero; it may be moved when the plant
    falls behind the wall clock.
    """

    def __init__(self, plant: Plant, state: StateFile, *, start_us: int) -> None:
        self._plant = plant
        self._state = state
        self._readings: StateArray = np.zeros(plant.node.gpu_count, dtype=READING)
        self._sampled_ms = plant.sensed_at_ms.copy()
        self._told = np.zeros(plant.node.gpu_count, dtype=np.bool_)
        self._asked = b""
        self.start_us = start_us

    def publish(self) -> None:
        """Write what the plant shows now, the driver's own sample buffer included."""
        plant, readings, node = self._plant, self._readings, self._plant.node
        alive = plant.present
        clock_mhz = plant.clock_mhz
        readings["sensor_time_us"][alive] = self.start_us + plant.sensed_at_ms[alive] * US_PER_MS
        readings["energy_mj"] = plant.energy_j * 1000.0
        readings["power_mw"] = np.rint(plant.sensed_power_w * 1000.0)
        readings["sm_clock_mhz"] = clock_mhz
        readings["mem_clock_mhz"] = node.gpu.clocks.memory_mhz
        readings["video_clock_mhz"] = clock_mhz * (node.gpu.clocks.video_max_mhz / node.gpu.clocks.max_mhz)
        readings["gpu_temp_c"] = np.rint(plant.die_c)
        readings["hbm_temp_c"] = np.rint(plant.memory_c)
        readings["gpu_util_percent"] = np.rint(plant.gpu_util_ratio * 100.0)
        readings["mem_util_percent"] = np.rint(plant.mem_util_ratio * 100.0)
        readings["event_reasons"] = plant.reasons
        readings["memory_used_bytes"] = 0 if plant.idle else 0.84375 * node.gpu.memory_total_bytes
        for name in ("power_violation", "thermal_violation", "sw_thermal", "hw_thermal", "power_brake"):
            readings[f"{name}_ns"] = plant.counters_ms[name] * NS_PER_MS
        readings["pcie_generation"] = node.gpu.pcie_generation
        readings["pcie_width"] = node.gpu.pcie_width
        traffic_kib_s = plant.mem_util_ratio * 1_000_000.0  # assumption: about 0.6 GB/s of input data
        readings["pcie_tx_kib_s"] = traffic_kib_s * 0.1
        readings["pcie_rx_kib_s"] = traffic_kib_s
        readings["lost"] = np.where(alive, 0, np.where(self._told, LOST_AND_TOLD, LOST))
        self._state.publish(readings, self.start_us + plant.now_ms * US_PER_MS)
        self._add_samples()

    def report_xid(self, gpu: int, code: int) -> None:
        """Put an Xid into the driver's event queue; it comes before the waits that the loss then ends."""
        self._state.add_event(gpu, kind=XID_EVENT, data=code)
        self._told[gpu] = not self._plant.present[gpu]

    def obey_requests(self) -> None:
        """Let the plant follow what setters asked for since the last call."""
        asked = self._state.record["request"][: self._plant.node.gpu_count]
        packed = asked.tobytes()
        if packed != self._asked:
            self._asked = packed
            self._plant.obey(settings_of(asked, self._plant.node))

    def _add_samples(self) -> None:
        plant = self._plant
        for gpu in np.flatnonzero((plant.sensed_at_ms != self._sampled_ms) & plant.present):
            time_ms = int(plant.sensed_at_ms[gpu])
            self._sampled_ms[gpu] = time_ms
            self._state.add_sample(
                int(gpu),
                time_us=self.start_us + time_ms * US_PER_MS,
                power_mw=int(self._readings["power_mw"][gpu]),
                sm_clock_mhz=int(self._readings["sm_clock_mhz"][gpu]),
            )


def settings_of(asked: StateArray, node: NodeFile) -> Settings:
    """Read the requests of all GPUs as settings.

    Applications clocks lock the clock once they were set, and leave it to boost once they were reset (nvml.h,
    nvmlDeviceResetApplicationsClocks, Pascal and newer).
    """
    settings = default_settings(node)
    locked = asked["locked_clocks"]
    is_locked = locked != 0
    return Settings(
        power_limit_w=asked["power_limit_mw"] / 1000.0,
        app_clock_mhz=np.where(asked["app_clock_is_set"] != 0, asked["app_sm_clock_mhz"], settings.app_clock_mhz),
        locked_mhz=np.where(is_locked, (locked & np.uint64(0xFFFFFFFF)).astype(np.float64), settings.locked_mhz),
        locked_min_mhz=np.where(is_locked, (locked >> np.uint64(32)).astype(np.float64), settings.locked_min_mhz),
    )
