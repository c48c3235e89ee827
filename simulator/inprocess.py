"""The agent's driver ports straight over the state file, for machines where no library can be built.

It says what the driver library says, from the same state, and obeys the same permissions.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simulator.driver.layout import (
    DEAD_GPU_TEMP,
    DEAD_HBM_TEMP,
    DEAD_POWER,
    DEAD_UTIL,
    EVENT_SLOTS,
    FEATURE_AVERAGE_POWER,
    FEATURE_ROW_REMAPPING,
    FEATURE_TLIMIT,
    LOST_AND_TOLD,
)
from simulator.driver.state import StateArray, StateFile
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.errors import DeviceLostError, NotPermittedError, NotSupportedError, TransientError
from telemetry.frames import FloatArray
from telemetry.gpu import DriverEvent, GpuIdentity
from telemetry.signals import RateClass, Source, signals_of

WAIT_STEP_S = 0.02
Column = Callable[["_Moment"], Any]


class _Moment:
    """What a column may draw on: the readings of one moment, what stays, and what was asked for."""

    def __init__(self, state: StateFile) -> None:
        count = state.gpu_count
        self.reading: StateArray = state.readings()[0]
        self.fixed: StateArray = state.record["fixed"][:count]
        self.request: StateArray = state.record["request"][:count]


def _sensor(now: _Moment, values: Any, dead: int) -> Any:
    return np.where(now.reading["dead_sensors"] & dead, np.nan, values)


def _where_there(now: _Moment, feature: int, values: Any) -> Any:
    return np.where(now.fixed["features"] & feature, values, np.nan)


# What does not happen to the simulated parts, as their driver library says.
_NEVER_HAPPENS = (
    "sync_boost_s", "board_limit_s", "low_utilisation_s", "reliability_s", "below_base_clock_s",
    "pcie_replay_rollovers", "pcie_recoveries", "pcie_bad_tlps", "pcie_bad_dllps", "pcie_nonfatal",
    "pcie_unsupported_requests", "pcie_lcrc_errors", "pcie_lane_errors", "recovery_action", "drain_reset_wanted",
)  # fmt: skip
_REMAPPED = ("remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed")
_RETIRED = ("retired_pages_corrected", "retired_pages_uncorrected", "retired_pages_pending")
# The NVML signals of the catalogue; a signal that is missing here is one that this driver does not support.
_COLUMNS: dict[str, Column] = {
    "power_w": lambda now: _sensor(now, now.reading["power_mw"] / 1000.0, DEAD_POWER),
    "sm_clock_mhz": lambda now: now.reading["sm_clock_mhz"],
    "mem_clock_mhz": lambda now: now.reading["mem_clock_mhz"],
    "gpu_util_ratio": lambda now: _sensor(now, now.reading["gpu_util_percent"] / 100.0, DEAD_UTIL),
    "mem_util_ratio": lambda now: _sensor(now, now.reading["mem_util_percent"] / 100.0, DEAD_UTIL),
    "throttle_reasons": lambda now: now.reading["event_reasons"],
    "energy_j": lambda now: now.reading["energy_mj"] / 1000.0,
    "gpu_temp_c": lambda now: _sensor(now, now.reading["gpu_temp_c"], DEAD_GPU_TEMP),
    "hbm_temp_c": lambda now: _sensor(now, now.reading["hbm_temp_c"], DEAD_HBM_TEMP),
    "slowdown_temp_c": lambda now: now.fixed["slowdown_c"],
    "shutdown_temp_c": lambda now: now.fixed["shutdown_c"],
    "power_limit_w": lambda now: now.request["power_limit_mw"] / 1000.0,
    "max_sm_clock_mhz": lambda now: now.fixed["max_sm_clock_mhz"],
    "app_clock_mhz": lambda now: now.request["app_sm_clock_mhz"],
    "memory_used_bytes": lambda now: now.reading["memory_used_bytes"] + now.fixed["memory_reserved_bytes"],
    "memory_total_bytes": lambda now: now.fixed["memory_total_bytes"],
    "pcie_generation": lambda now: now.reading["pcie_generation"],
    "pcie_width": lambda now: now.reading["pcie_width"],
    "pcie_replays": lambda now: now.reading["pcie_replays"],
    "ecc_corrected": lambda now: now.reading["ecc_corrected"],
    "ecc_uncorrected": lambda now: now.reading["ecc_uncorrected"],
    "power_violation_s": lambda now: now.reading["power_violation_ns"] / 1e9,
    "thermal_violation_s": lambda now: now.reading["thermal_violation_ns"] / 1e9,
    "power_brake_s": lambda now: now.reading["power_brake_ns"] / 1e9,
    "hw_thermal_s": lambda now: now.reading["hw_thermal_ns"] / 1e9,
    "sw_thermal_s": lambda now: now.reading["sw_thermal_ns"] / 1e9,
    "power_average_w": lambda now: _where_there(
        now, FEATURE_AVERAGE_POWER, _sensor(now, now.reading["power_average_mw"] / 1000.0, DEAD_POWER)
    ),
    "margin_c": lambda now: _where_there(
        now,
        FEATURE_TLIMIT,
        _sensor(now, now.fixed["gpu_max_c"].astype(np.int64) - now.reading["gpu_temp_c"], DEAD_GPU_TEMP),
    ),
    "ecc_corrected_aggregate": lambda now: now.reading["ecc_corrected_aggregate"],
    "ecc_uncorrected_aggregate": lambda now: now.reading["ecc_uncorrected_aggregate"],
    **dict.fromkeys(_NEVER_HAPPENS, lambda now: now.reading["lost"] * 0),
    **dict.fromkeys(_REMAPPED, lambda now: _where_there(now, FEATURE_ROW_REMAPPING, 0)),
    **dict.fromkeys(_RETIRED, lambda now: np.where(now.fixed["features"] & FEATURE_ROW_REMAPPING, np.nan, 0)),
    **dict.fromkeys(("pcie_naks_received", "pcie_naks_sent"), lambda now: now.reading["pcie_replays"]),
    "pcie_receiver_errors": lambda now: now.reading["aer_correctable"],
    "pcie_correctable": lambda now: now.reading["aer_correctable"],
    "pcie_fatal": lambda now: now.reading["aer_fatal"],
    "pcie_tx_bytes": lambda now: now.reading["pcie_tx_bytes"],
    "pcie_rx_bytes": lambda now: now.reading["pcie_rx_bytes"],
    "power_limit_min_w": lambda now: now.fixed["power_min_mw"] / 1000.0,
    "power_limit_max_w": lambda now: now.fixed["power_max_mw"] / 1000.0,
    "power_limit_default_w": lambda now: now.fixed["power_default_mw"] / 1000.0,
    "power_limit_requested_w": lambda now: now.request["power_limit_mw"] / 1000.0,
    "max_mem_clock_mhz": lambda now: now.fixed["mem_clock_mhz"],
    "app_mem_clock_mhz": lambda now: now.fixed["mem_clock_mhz"],
    "default_app_clock_mhz": lambda now: now.fixed["default_sm_clock_mhz"],
    "boost_max_clock_mhz": lambda now: now.fixed["max_sm_clock_mhz"],
    "memory_max_temp_c": lambda now: now.fixed["memory_max_c"],
    "gpu_max_temp_c": lambda now: now.fixed["gpu_max_c"],
    "pcie_generation_max": lambda now: now.fixed["pcie_generation_max"],
    "pcie_width_max": lambda now: now.fixed["pcie_width_max"],
    "tlimit_shutdown_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_shutdown_c"]),
    "tlimit_slowdown_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_slowdown_c"]),
    "tlimit_memory_max_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_memory_max_c"]),
    "tlimit_gpu_max_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_gpu_max_c"]),
    "ecc_mode": lambda now: now.request["ecc_off"] == 0,
    "ecc_mode_pending": lambda now: now.request["ecc_off_pending"] == 0,
}


def _columns_of(rate: RateClass) -> tuple[Column | None, ...]:
    return tuple(_COLUMNS.get(signal.name) for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=rate))


class PlantDriver:
    """Reads every GPU, waits for events and moves the clocks of a served plant; safe from several processes."""

    name = "application_clock"
    readable = True

    def __init__(self, state_path: Path, clock: Clock) -> None:
        writable = os.access(state_path, os.W_OK)
        self._state = StateFile(state_path, mode="write" if writable else "read")
        self._may_write = writable and (os.geteuid() == 0 or bool(self._state.record["clocks_unrestricted"]))
        self._clock = clock
        self._fast = _columns_of(RateClass.FAST)
        self._slow = _columns_of(RateClass.SLOW)
        self._rare = _columns_of(RateClass.RARE)
        self._next_event = int(self._state.record["event_count"])
        self._gpus = tuple(self._identity(index) for index in range(self._state.gpu_count))
        self._index = {gpu.uuid: gpu.index for gpu in self._gpus}

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Give the GPUs in driver order, lost ones included."""
        return self._gpus

    def read_fast(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; a lost GPU's row is NaN."""
        self._fill(values, self._fast)

    def read_slow(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``; a lost GPU's row is NaN."""
        self._fill(values, self._slow)

    def read_rare(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_rare_signals)``; a lost GPU's row is NaN."""
        self._fill(values, self._rare)

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Give the events since the last call, waiting for the first.

        Raises
        ------
        DeviceLostError
            No event is left to tell and a GPU is lost, as the driver answers from then on.
        TransientError
            No driver is loaded.
        """
        end_s = self._clock.monotonic_s() + timeout_s
        while True:
            events = self._take_events()
            if events:
                return events
            self._need_driver()
            if (self._state.readings()[0]["lost"] == LOST_AND_TOLD).any():
                raise DeviceLostError("a GPU is lost; the driver ends every wait at once")
            now_s = self._clock.monotonic_s()
            if now_s >= end_s:
                return ()
            self._clock.sleep_until(min(end_s, now_s + WAIT_STEP_S))

    def supported_mhz(self, uuid: str) -> tuple[float, ...]:
        """Give the clocks that can be set, ascending; the default is left out, since it reads as unset."""
        fixed = self._state.record["fixed"][self._present(uuid)]
        count, default_mhz = int(fixed["clock_count"]), int(fixed["default_sm_clock_mhz"])
        return tuple(float(clock) for clock in fixed["clocks_mhz"][:count][::-1] if clock != default_mhz)

    def read_mhz(self, uuid: str) -> float | None:
        """Give the applications clock in force, None where the default is: then the GPU boosts beyond it."""
        index = self._present(uuid)
        clock_mhz = int(self._state.record["request"][index]["app_sm_clock_mhz"])
        return None if clock_mhz == int(self._state.record["fixed"][index]["default_sm_clock_mhz"]) else clock_mhz

    def write_mhz(self, uuid: str, clock_mhz: float | None) -> None:
        """Set the applications clock, None to reset it.

        Raises
        ------
        NotPermittedError
            This process is not root, or the plant is read-only for it.
        NotSupportedError
            The clock is not one of the supported ones.
        DeviceLostError
            The GPU fell off the bus.
        """
        index = self._present(uuid)
        if not self._may_write:
            raise NotPermittedError("only root may change the clocks of the simulated GPUs")
        request = self._state.record["request"][index]
        if clock_mhz is None:
            request["app_clock_is_set"] = 0
            request["app_sm_clock_mhz"] = self._state.record["fixed"][index]["default_sm_clock_mhz"]
            return
        if clock_mhz not in self.supported_mhz(uuid):
            raise NotSupportedError(f"{clock_mhz:g} MHz is not a supported clock of {uuid}")
        request["app_sm_clock_mhz"] = round(clock_mhz)
        request["app_clock_is_set"] = 1

    def close(self) -> None:
        """Unmap the state."""
        self._state.close()

    def _fill(self, values: FloatArray, columns: tuple[Column | None, ...]) -> None:
        self._need_driver()
        now = _Moment(self._state)
        for column, give in enumerate(columns):
            values[:, column] = np.nan if give is None else give(now)
        values[now.reading["lost"] != 0] = np.nan

    def _take_events(self) -> tuple[DriverEvent, ...]:
        count = int(self._state.record["event_count"])
        first = max(self._next_event, count - EVENT_SLOTS)
        self._next_event = count
        slots = [self._state.record["events"][position % EVENT_SLOTS] for position in range(first, count)]
        return tuple(DriverEvent(uuid=self._gpus[int(slot["gpu"])].uuid, code=int(slot["data"])) for slot in slots)

    def _need_driver(self) -> None:
        if not self._state.record["driver_loaded"]:
            raise TransientError("no driver is loaded for the simulated GPUs")

    def _present(self, uuid: str) -> int:
        self._need_driver()
        index = self._index[uuid]
        if self._state.readings()[0][index]["lost"]:
            raise DeviceLostError(f"{uuid} has fallen off the bus")
        return index

    def _identity(self, index: int) -> GpuIdentity:
        fixed = self._state.record["fixed"][index]
        place = f"{fixed['pci_domain']:04x}:{fixed['pci_bus']:02x}:{fixed['pci_device']:02x}.0"
        return GpuIdentity(
            uuid=fixed["uuid"].decode(),
            index=index,
            name=fixed["name"].decode(),
            pci=place,
            serial=fixed["serial"].decode() or None,
            driver_version=self._state.record["driver_version"].decode(),
        )
