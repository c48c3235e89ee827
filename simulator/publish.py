"""Carries a plant into the state file, and what setters asked for back into the plant."""

from collections.abc import Sequence

import numpy as np

from simulator.driver.describing import reset_requests
from simulator.driver.faults import FaultTable
from simulator.driver.layout import (
    DEAD_GPU_TEMP,
    DEAD_HBM_TEMP,
    DEAD_POWER,
    DEAD_UTIL,
    LOST,
    LOST_AND_REPORTED,
    PIPES,
    READING,
)
from simulator.driver.state import XID_EVENT, StateArray, StateFile
from simulator.files.node import NodeFile
from simulator.files.scenario import DriverFault
from simulator.plant.clocks import Settings
from simulator.plant.driver_counters import COUNTED
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.plant import Plant, default_settings
from simulator.plant.state import GpuState
from simulator.sensors.bank import SensorBank
from simulator.served.proc_tree import RANK_PID, ranks_running

UTIL_PERIOD_MS = 160  # utilisation is renewed six times a second, nvidia-smi --help-query-gpu
NS_PER_MS = 1_000_000
US_PER_MS = 1000


class PlantPublisher:
    """Updates a state file from a plant: counters and clocks from the plant, measurements from the sensors.

    `start_us` is the UTC time, in microseconds, at which the plant's time is zero; it may be moved when the plant
    falls behind the wall clock.
    """

    def __init__(
        self,
        plant: Plant,
        bank: SensorBank,
        file: StateFile,
        *,
        start_us: int,
        driver_faults: Sequence[DriverFault] = (),
    ) -> None:
        count = plant.node.gpu_count
        self._plant = plant
        self._bank = bank
        self._file = file
        self._node = plant.node
        self._readings: StateArray = np.zeros(count, dtype=READING)
        self._shown = _DriverCounters(plant.node)
        self._faults = FaultTable(file, driver_faults)
        self._sampled_ms = np.full(count, -1, dtype=np.int64)
        self._util_turn = -1
        self._reported = np.zeros(count, dtype=np.bool_)
        self._asked = b""
        self.start_us = start_us

    def publish(self) -> None:
        """Write what the driver knows now, its own sample buffers included."""
        state, readings = self._plant.state, self._readings
        now_us = self.start_us + state.now_ms * US_PER_MS
        self._reported &= ~state.gpus.present
        self._shown.counts(readings, state.gpus, now_us=now_us)
        _measurements(readings, self._bank)
        readings["lost"] = np.where(state.gpus.present, 0, np.where(self._reported, LOST_AND_REPORTED, LOST))
        sensed_us = self.start_us + self._bank.driver.power.at_ms * US_PER_MS
        readings["sensor_time_us"] = np.where(state.gpus.present, sensed_us, readings["sensor_time_us"])
        util_is_new = state.now_ms // UTIL_PERIOD_MS != self._util_turn
        if util_is_new:
            readings["util_time_us"] = now_us
        self._file.publish(readings, now_us)
        self._file.record["driver_loaded"] = state.driver_loaded and state.powered
        self._faults.show(state.now_ms / 1000.0, exporter_alive=self._bank.exporter_alive)
        self._add_power_samples()
        if util_is_new:
            self._util_turn = state.now_ms // UTIL_PERIOD_MS
            self._add_util_samples()

    def report(self, event: PlantEvent) -> None:
        """Report an event through the driver, if the driver knows its kind; before `publish` shows the rest.

        An Xid comes before the waits that the loss then ends.
        """
        if event.kind is PlantEventKind.XID and event.gpu is not None and event.code is not None:
            self._file.add_event(event.gpu, kind=XID_EVENT, data=event.code)
            self._reported[event.gpu] = not self._plant.state.gpus.present[event.gpu]
        elif event.kind is PlantEventKind.DRIVER_UNLOADED:
            self._file.unload_driver()
        elif event.kind is PlantEventKind.DRIVER_LOADED:
            reset_requests(self._file, self._node)
            self._file.load_driver()

    def obey_requests(self) -> None:
        """Apply to the plant what setters requested since the last call."""
        asked = self._file.record["request"][: self._node.gpu_count].copy()  # setters go on writing
        packed = asked.tobytes()
        if packed != self._asked:
            self._asked = packed
            self._plant.obey(settings_of(asked, self._node))

    def _add_power_samples(self) -> None:
        at_ms = self._bank.driver.power.at_ms
        due = (at_ms != self._sampled_ms) & self._plant.state.gpus.present
        for gpu in np.flatnonzero(due & (self._readings["dead_sensors"] & DEAD_POWER == 0)):
            time_ms = int(at_ms[gpu])
            self._sampled_ms[gpu] = time_ms
            self._file.add_sample(
                int(gpu),
                time_us=self.start_us + time_ms * US_PER_MS,
                power_mw=int(self._readings["power_mw"][gpu]),
                sm_clock_mhz=int(self._readings["sm_clock_mhz"][gpu]),
            )

    def _add_util_samples(self) -> None:
        alive = self._plant.state.gpus.present & (self._readings["dead_sensors"] & DEAD_UTIL == 0)
        for gpu in np.flatnonzero(alive):
            self._file.add_util_sample(
                int(gpu),
                time_us=int(self._readings["util_time_us"][gpu]),
                gpu_percent=int(self._readings["gpu_util_percent"][gpu]),
                mem_percent=int(self._readings["mem_util_percent"][gpu]),
            )


class _DriverCounters:
    """Turns the truth of the GPUs into what the driver counts."""

    def __init__(self, node: NodeFile) -> None:
        self._node = node
        self._bit = np.uint32(1) << np.arange(node.gpu.nvlink_count, dtype=np.uint32)
        self._pids = RANK_PID + np.arange(node.gpu_count)
        self._busy_ns = np.zeros(node.gpu_count)
        self._dram_ns = np.zeros(node.gpu_count)
        self._pipe_ns = np.zeros((node.gpu_count, len(PIPES)))
        self._last_us: int | None = None

    def counts(self, readings: StateArray, gpus: GpuState, *, now_us: int) -> None:
        """Fill everything that is not measured."""
        self._integrate(gpus, now_us)
        clocks = self._node.gpu.clocks
        readings["energy_mj"] = gpus.energy_j * 1000.0
        readings["sm_clock_mhz"] = gpus.clock_mhz
        readings["mem_clock_mhz"] = clocks.memory_mhz
        readings["video_clock_mhz"] = gpus.clock_mhz * (clocks.video_max_mhz / clocks.max_mhz)
        readings["event_reasons"] = gpus.reasons
        for name in COUNTED:
            readings[f"{name}_ns"] = gpus.counters_ms[name] * NS_PER_MS
        readings["busy_ns"] = self._busy_ns
        readings["dram_ns"] = self._dram_ns
        readings["pipe_ns"] = self._pipe_ns
        self._memory(readings, gpus, now_us)
        self._links(readings, gpus, now_us)

    def _integrate(self, gpus: GpuState, now_us: int) -> None:
        passed_ns = 0.0 if self._last_us is None else max(0, now_us - self._last_us) * 1000.0
        self._busy_ns += gpus.util_ratio * passed_ns
        self._dram_ns += gpus.mem_util_ratio * passed_ns
        self._pipe_ns += gpus.pipe_ratio * passed_ns

    def _memory(self, readings: StateArray, gpus: GpuState, now_us: int) -> None:
        used = np.maximum(gpus.memory_used_bytes - self._node.gpu.memory_reserved_bytes, 0.0)
        runs = ranks_running(self._node, gpus)
        readings["memory_used_bytes"] = used
        readings["process_bytes"] = np.where(runs, used, 0.0)
        readings["process_start_us"] = np.where(
            runs, np.where(readings["process_pid"] == 0, now_us, readings["process_start_us"]), 0
        )
        readings["process_pid"] = np.where(runs, self._pids, 0)

    def _links(self, readings: StateArray, gpus: GpuState, now_us: int) -> None:
        passed_s = 0.0 if self._last_us is None else (now_us - self._last_us) / 1e6
        for way, moved_bytes in (("tx", gpus.pcie_tx_bytes), ("rx", gpus.pcie_rx_bytes)):
            before = readings[f"pcie_{way}_bytes"]
            if passed_s > 0.0:
                readings[f"pcie_{way}_kib_s"] = np.maximum(moved_bytes - before, 0.0) / 1024.0 / passed_s
            readings[f"pcie_{way}_bytes"] = moved_bytes
        self._last_us = now_us
        readings["pcie_generation"] = self._node.gpu.pcie_generation
        readings["pcie_width"] = self._node.gpu.pcie_width
        readings["pcie_replays"] = gpus.pcie_replays
        readings["aer_correctable"] = gpus.aer_correctable
        readings["aer_fatal"] = gpus.aer_fatal
        n_links = self._node.gpu.nvlink_count
        readings["nvlink_up"] = (gpus.nvlink_up * self._bit).sum(axis=1)
        readings["nvlink_crc"][:, :n_links] = gpus.nvlink_crc
        readings["nvlink_replays"][:, :n_links] = gpus.nvlink_replays
        readings["nvlink_recoveries"][:, :n_links] = gpus.nvlink_recoveries
        readings["nvlink_bytes"][:, :n_links] = gpus.nvlink_bytes


def _measurements(readings: StateArray, bank: SensorBank) -> None:
    """Fill what sensors show; one that shows nothing keeps its number and is marked as dead."""
    dead = np.zeros(len(readings), dtype=np.uint32)
    for name, values, sensor in (
        ("power_mw", bank.driver.power.shown * 1000.0, DEAD_POWER),
        ("power_average_mw", bank.driver.average.shown * 1000.0, DEAD_POWER),
        ("gpu_temp_c", bank.driver.gpu_temp_c, DEAD_GPU_TEMP),
        ("hbm_temp_c", bank.driver.hbm_temp_c, DEAD_HBM_TEMP),
        ("gpu_util_percent", bank.driver.gpu_util_ratio * 100.0, DEAD_UTIL),
        ("mem_util_percent", bank.driver.mem_util_ratio * 100.0, DEAD_UTIL),
    ):
        absent = np.isnan(values)
        readings[name] = np.rint(np.where(absent, readings[name], np.maximum(values, 0.0)))
        dead |= np.where(absent, sensor, 0).astype(np.uint32)
    readings["dead_sensors"] = dead


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
