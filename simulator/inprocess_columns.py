"""The NVML signals of a simulated node in process: the call behind each, and its value for every GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.driver.layout import (
    DEAD_GPU_TEMP,
    DEAD_HBM_TEMP,
    DEAD_POWER,
    DEAD_UTIL,
    FEATURE_AVERAGE_POWER,
    FEATURE_ROW_REMAPPING,
    FEATURE_TLIMIT,
)
from simulator.driver.state import StateArray, StateFile

_FIELDS = "nvmlDeviceGetFieldValues"
_UTILIZATION = "nvmlDeviceGetUtilizationRates"
_THRESHOLD = "nvmlDeviceGetTemperatureThreshold"
_CLOCK = "nvmlDeviceGetClockInfo"
_MEMORY = "nvmlDeviceGetMemoryInfo"


class DriverSnapshot:
    """Inputs of a column: the readings of one moment, constants, and requested settings."""

    def __init__(self, state: StateFile) -> None:
        count = state.gpu_count
        self.reading: StateArray = state.readings()[0]
        self.fixed: StateArray = state.record["fixed"][:count]
        self.request: StateArray = state.record["request"][:count]


def _sensor(now: DriverSnapshot, values: Any, dead: int) -> Any:
    return np.where(now.reading["dead_sensors"] & dead, np.nan, values)


def _counted(now: DriverSnapshot, errors: str) -> Any:
    return np.where(now.request["ecc_off"], np.nan, now.reading[errors])  # nvml.h: with ECC off nothing is counted


@dataclass(frozen=True, slots=True)
class Column:
    """Signal: the NVML call that gives it to the agent, and the values of that call for every GPU."""

    call: str
    give: Callable[[DriverSnapshot], Any]


# The NVML signals of the catalogue; a signal that is missing here is one that this driver does not support.
_MAIN: dict[str, Column] = {
    "power_w": Column(_FIELDS, lambda now: _sensor(now, now.reading["power_mw"] / 1000.0, DEAD_POWER)),
    "sm_clock_mhz": Column(_CLOCK, lambda now: now.reading["sm_clock_mhz"]),
    "mem_clock_mhz": Column(_CLOCK, lambda now: now.reading["mem_clock_mhz"]),
    "gpu_util_ratio": Column(
        _UTILIZATION, lambda now: _sensor(now, now.reading["gpu_util_percent"] / 100.0, DEAD_UTIL)
    ),
    "mem_util_ratio": Column(
        _UTILIZATION, lambda now: _sensor(now, now.reading["mem_util_percent"] / 100.0, DEAD_UTIL)
    ),
    "throttle_reasons": Column("nvmlDeviceGetCurrentClocksEventReasons", lambda now: now.reading["event_reasons"]),
    "energy_j": Column(_FIELDS, lambda now: now.reading["energy_mj"] / 1000.0),
    "gpu_temp_c": Column(
        "nvmlDeviceGetTemperatureV", lambda now: _sensor(now, now.reading["gpu_temp_c"], DEAD_GPU_TEMP)
    ),
    "hbm_temp_c": Column(_FIELDS, lambda now: _sensor(now, now.reading["hbm_temp_c"], DEAD_HBM_TEMP)),
    "slowdown_temp_c": Column(_THRESHOLD, lambda now: now.fixed["slowdown_c"]),
    "shutdown_temp_c": Column(_THRESHOLD, lambda now: now.fixed["shutdown_c"]),
    "power_limit_w": Column("nvmlDeviceGetEnforcedPowerLimit", lambda now: now.request["power_limit_mw"] / 1000.0),
    "max_sm_clock_mhz": Column("nvmlDeviceGetMaxClockInfo", lambda now: now.fixed["max_sm_clock_mhz"]),
    "app_clock_mhz": Column("nvmlDeviceGetApplicationsClock", lambda now: now.request["app_sm_clock_mhz"]),
    "memory_used_bytes": Column(
        _MEMORY, lambda now: now.reading["memory_used_bytes"] + now.fixed["memory_reserved_bytes"]
    ),
    "memory_total_bytes": Column(_MEMORY, lambda now: now.fixed["memory_total_bytes"]),
    "pcie_generation": Column("nvmlDeviceGetCurrPcieLinkGeneration", lambda now: now.reading["pcie_generation"]),
    "pcie_width": Column("nvmlDeviceGetCurrPcieLinkWidth", lambda now: now.reading["pcie_width"]),
    "pcie_replays": Column(_FIELDS, lambda now: now.reading["pcie_replays"]),
    "ecc_corrected": Column(_FIELDS, lambda now: _counted(now, "ecc_corrected")),
    "ecc_uncorrected": Column(_FIELDS, lambda now: _counted(now, "ecc_uncorrected")),
    "power_violation_s": Column(_FIELDS, lambda now: now.reading["power_violation_ns"] / 1e9),
    "thermal_violation_s": Column(_FIELDS, lambda now: now.reading["thermal_violation_ns"] / 1e9),
    "power_brake_s": Column(_FIELDS, lambda now: now.reading["power_brake_ns"] / 1e9),
    "hw_thermal_s": Column(_FIELDS, lambda now: now.reading["hw_thermal_ns"] / 1e9),
}


def _where_there(now: DriverSnapshot, feature: int, values: Any) -> Any:
    return np.where(now.fixed["features"] & feature, values, np.nan)


# What does not happen to the simulated parts, as in their driver library.
_NEVER_HAPPENS = (
    "sync_boost_s", "board_limit_s", "low_utilisation_s", "reliability_s", "below_base_clock_s",
    "pcie_replay_rollovers", "pcie_recoveries", "pcie_bad_tlps", "pcie_bad_dllps", "pcie_nonfatal",
    "pcie_unsupported_requests", "pcie_lcrc_errors", "pcie_lane_errors", "recovery_action", "drain_reset_wanted",
)  # fmt: skip
_REMAPPED = ("remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed")
_RETIRED = ("retired_pages_corrected", "retired_pages_uncorrected", "retired_pages_pending")
# The calls of further signals that do not come with the batched fields.
_CALLS = {
    "margin_c": "nvmlDeviceGetMarginTemperature",
    "memory_max_temp_c": _THRESHOLD,
    "gpu_max_temp_c": _THRESHOLD,
    "max_mem_clock_mhz": "nvmlDeviceGetMaxClockInfo",
    "app_mem_clock_mhz": "nvmlDeviceGetApplicationsClock",
    "default_app_clock_mhz": "nvmlDeviceGetDefaultApplicationsClock",
    "boost_max_clock_mhz": "nvmlDeviceGetMaxCustomerBoostClock",
    "max_pcie_generation": "nvmlDeviceGetMaxPcieLinkGeneration",
    "max_pcie_width": "nvmlDeviceGetMaxPcieLinkWidth",
}
_MORE: dict[str, Callable[[DriverSnapshot], Any]] = {
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
    "max_pcie_generation": lambda now: now.fixed["pcie_generation_max"],
    "max_pcie_width": lambda now: now.fixed["pcie_width_max"],
    "tlimit_shutdown_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_shutdown_c"]),
    "tlimit_slowdown_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_slowdown_c"]),
    "tlimit_memory_max_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_memory_max_c"]),
    "tlimit_gpu_max_c": lambda now: _where_there(now, FEATURE_TLIMIT, now.fixed["tlimit_gpu_max_c"]),
    "ecc_mode": lambda now: now.request["ecc_off"] == 0,
    "ecc_mode_pending": lambda now: now.request["ecc_off_pending"] == 0,
}
# A signal that is missing here is one that this driver does not support.
COLUMNS = {**_MAIN, **{name: Column(_CALLS.get(name, _FIELDS), give) for name, give in _MORE.items()}}
