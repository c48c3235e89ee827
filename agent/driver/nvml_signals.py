"""NVML call of each signal: the catalogue's columns and the functions and field ids of ``nvml.h``.

Each want lists its sources best first; the first that works on a GPU is used from then on.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from agent.driver import nvml_fields as fields
from agent.driver.nvml_fields import ThrottleCounterIds

_CLOCK_SM, _CLOCK_MEM, _CLOCK_GRAPHICS = 1, 2, 0
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN, _THRESHOLD_MEMORY_MAX, _THRESHOLD_GPU_MAX = 0, 1, 2, 3
# nvmlPerfPolicyType_t: the two of application clocks and of base clocks are 10 and 11.
_POLICY_POWER, _POLICY_THERMAL, _POLICY_SYNC_BOOST, _POLICY_BOARD_LIMIT = 0, 1, 2, 3
_POLICY_LOW_UTILISATION, _POLICY_RELIABILITY, _POLICY_BELOW_BASE = 4, 5, 11
_ECC_CORRECTED, _ECC_UNCORRECTED, _ECC_VOLATILE, _ECC_AGGREGATE = 0, 1, 0, 1
# nvmlTemperature_v1_t is version, sensor, temperature: 12 bytes; a version field is size | version << 24.
_TEMPERATURE_V1 = 12 | 1 << 24
# nvmlMarginTemperature_v1_t: version, margin.
_MARGIN_V1 = 8 | 1 << 24
_MILLI, _NANO, _PERCENT, _KIB = 1e-3, 1e-9, 1e-2, 1024.0
# Utilisation is sampled over 1/6 s at the shortest (nvidia-smi --help-query-gpu, utilization.gpu): two looks at each.
# Memory clocks change with the performance state, in seconds; heuristic: looked at as often.
_UTILISATION_S = 1.0 / 12.0
# Columns without a driver call: the sampler computes them from when the others changed.
NO_CALL = frozenset({"power_age_s"})
_PCIE_TX, _PCIE_RX = 0, 1
# nvmlFanSpeedInfo_v1_t is version, fan, speed in rpm: 12 bytes; a version field is size | version << 24.
_FAN_SPEED_V1 = 12 | 1 << 24
# nvmlGpuFabricInfo_v2_t in bytes: version, 16 of the cluster, status, clique, then state at 28 and health mask at 32.
_FABRIC_V2 = 36 | 2 << 24
_FABRIC_V2_PRESET = (*_FABRIC_V2.to_bytes(4, "little"), *(0,) * 32)
# nvmlGpuFabricInfo_t: the same without a version and a health mask; state at 24 of 28 bytes.
_FABRIC_V1_PRESET = (0,) * 28


class Pointers(StrEnum):
    """Form in which a function takes its output numbers."""

    ONE = "one"
    EACH = "each"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSource:
    """Function that fills a few numbers.

    Parameters
    ----------
    function
        Its name in the library, called as ``function(handle, *arguments, numbers)``.
    ctype
        ctypes code of one output number: ``B`` a byte, ``I`` and ``i`` 32 bit without and with sign, ``Q`` 64 bit.
    preset
        The numbers before the call; also how many there are.
    pointers
        One pointer to all numbers, as to a structure, or one pointer for each.
    every_s
        A read sooner after the last one repeats its values: for what the driver updates less often.
    outputs
        ``(index, signal, factor)`` of what is read from them.
    """

    function: str
    arguments: tuple[int, ...] = ()
    ctype: str = "I"
    preset: tuple[int, ...] = (0,)
    pointers: Pointers = Pointers.ONE
    every_s: float = 0.0
    outputs: tuple[tuple[int, str, float], ...]

    @property
    def name(self) -> str:
        """Name in doctor and in the table of costs."""
        return self.function + (f"({', '.join(map(str, self.arguments))})" if self.arguments else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """Field id that is requested in the batched call together with all others.

    `scope` is the part of the board or the link that is meant. `elsewhere` means that another group reads the
    quantity through this field, better: where the GPU supports it, the want is met and nothing is requested here.
    """

    field_id: int
    signal: str
    factor: float
    scope: int = 0
    elsewhere: bool = False

    @property
    def requested(self) -> tuple[int, int]:
        """The entry of the batched call: field id and scope."""
        return self.field_id, self.scope

    @property
    def name(self) -> str:
        """Name in doctor and in the table of costs."""
        return f"field {self.field_id}" + (f" scope {self.scope}" if self.scope else "")

    @property
    def outputs(self) -> tuple[tuple[int, str, float], ...]:
        """Its one output, in the form of a scalar source."""
        return ((0, self.signal, self.factor),)


Source = ScalarSource | FieldSource
Want = tuple[Source, ...]


def one(function: str, signal: str, *arguments: int, factor: float = 1.0, ctype: str = "I") -> ScalarSource:
    """Return a function that fills one number."""
    return ScalarSource(function=function, arguments=arguments, ctype=ctype, outputs=((0, signal, factor),))


def field(field_id: int, signal: str, factor: float = 1.0, *, scope: int = 0) -> FieldSource:
    """Return a field of the batched call."""
    return FieldSource(field_id=field_id, signal=signal, factor=factor, scope=scope)


FAST: tuple[Want, ...] = (
    # The instant field on every architecture: nvmlDeviceGetPowerUsage is a 1 s mean from GA10x and Hopper on.
    (
        field(fields.POWER_INSTANT_MW, "power_w", _MILLI),
        one("nvmlDeviceGetPowerUsage", "power_w", factor=_MILLI),
    ),
    (one("nvmlDeviceGetClockInfo", "sm_clock_mhz", _CLOCK_SM),),
    (replace(one("nvmlDeviceGetClockInfo", "mem_clock_mhz", _CLOCK_MEM), every_s=_UTILISATION_S),),
    (
        ScalarSource(
            function="nvmlDeviceGetUtilizationRates",
            preset=(0, 0),
            every_s=_UTILISATION_S,
            outputs=((0, "gpu_util_ratio", _PERCENT), (1, "mem_util_ratio", _PERCENT)),
        ),
    ),
    (
        one("nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons", ctype="Q"),
        one("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons", ctype="Q"),
    ),
)


def slow_wants(counters: ThrottleCounterIds | None) -> tuple[Want, ...]:
    """Return the slow columns; `counters` are the ids of this driver, None where it has no such counters."""
    return _SLOW if counters is None else (*_SLOW, *_throttle_wants(counters))


def _throttle_wants(counters: ThrottleCounterIds) -> tuple[Want, ...]:
    return (
        (field(counters.hw_power_brake, "power_brake_s", _NANO),),
        (field(counters.hw_thermal, "hw_thermal_s", _NANO),),
        (field(counters.sw_thermal, "sw_thermal_s", _NANO),),
    )


def _violation(policy: int, signal: str) -> ScalarSource:
    """nvmlViolationTime_t: reference time in us, violation time in ns."""
    return ScalarSource(
        function="nvmlDeviceGetViolationStatus",
        arguments=(policy,),
        ctype="Q",
        preset=(0, 0),
        outputs=((1, signal, _NANO),),
    )


_SLOW: tuple[Want, ...] = (
    (
        field(fields.TOTAL_ENERGY_MJ, "energy_j", _MILLI),
        one("nvmlDeviceGetTotalEnergyConsumption", "energy_j", factor=_MILLI, ctype="Q"),
    ),
    (
        ScalarSource(
            function="nvmlDeviceGetTemperatureV",
            ctype="i",
            preset=(_TEMPERATURE_V1, 0, 0),
            outputs=((2, "gpu_temp_c", 1.0),),
        ),
        one("nvmlDeviceGetTemperature", "gpu_temp_c", 0),
    ),
    (field(fields.MEMORY_TEMP_C, "hbm_temp_c"),),
    (one("nvmlDeviceGetTemperatureThreshold", "slowdown_temp_c", _THRESHOLD_SLOWDOWN),),
    (one("nvmlDeviceGetTemperatureThreshold", "shutdown_temp_c", _THRESHOLD_SHUTDOWN),),
    (one("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w", factor=_MILLI),),
    (one("nvmlDeviceGetMaxClockInfo", "max_sm_clock_mhz", _CLOCK_SM),),
    (one("nvmlDeviceGetApplicationsClock", "app_clock_mhz", _CLOCK_GRAPHICS),),
    (
        # nvmlMemory_t: total, free, used. Its `used` includes the driver's reserve, see the catalogue.
        ScalarSource(
            function="nvmlDeviceGetMemoryInfo",
            ctype="Q",
            preset=(0, 0, 0),
            outputs=((2, "memory_used_bytes", 1.0), (0, "memory_total_bytes", 1.0)),
        ),
    ),
    (one("nvmlDeviceGetCurrPcieLinkGeneration", "pcie_generation"),),
    (one("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"),),
    (field(fields.PCIE_REPLAY_COUNTER, "pcie_replays"), one("nvmlDeviceGetPcieReplayCounter", "pcie_replays")),
    (
        field(fields.ECC_SBE_VOLATILE, "ecc_corrected"),
        one("nvmlDeviceGetTotalEccErrors", "ecc_corrected", _ECC_CORRECTED, _ECC_VOLATILE, ctype="Q"),
    ),
    (
        field(fields.ECC_DBE_VOLATILE, "ecc_uncorrected"),
        one("nvmlDeviceGetTotalEccErrors", "ecc_uncorrected", _ECC_UNCORRECTED, _ECC_VOLATILE, ctype="Q"),
    ),
    (field(fields.PERF_POLICY_POWER_NS, "power_violation_s", _NANO), _violation(_POLICY_POWER, "power_violation_s")),
    (
        field(fields.PERF_POLICY_THERMAL_NS, "thermal_violation_s", _NANO),
        _violation(_POLICY_THERMAL, "thermal_violation_s"),
    ),
    (field(fields.POWER_AVERAGE_MW, "power_average_w", _MILLI),),
    (field(fields.POWER_INSTANT_MW, "module_power_w", _MILLI, scope=fields.SCOPE_MODULE),),
    (
        ScalarSource(
            function="nvmlDeviceGetMarginTemperature",
            ctype="i",
            preset=(_MARGIN_V1, 0),
            outputs=((1, "margin_c", 1.0),),
        ),
    ),
    (
        field(fields.PERF_POLICY_SYNC_BOOST_NS, "sync_boost_s", _NANO),
        _violation(_POLICY_SYNC_BOOST, "sync_boost_s"),
    ),
    (
        field(fields.PERF_POLICY_BOARD_LIMIT_NS, "board_limit_s", _NANO),
        _violation(_POLICY_BOARD_LIMIT, "board_limit_s"),
    ),
    (
        field(fields.PERF_POLICY_LOW_UTILISATION_NS, "low_utilisation_s", _NANO),
        _violation(_POLICY_LOW_UTILISATION, "low_utilisation_s"),
    ),
    (
        field(fields.PERF_POLICY_RELIABILITY_NS, "reliability_s", _NANO),
        _violation(_POLICY_RELIABILITY, "reliability_s"),
    ),
    (
        field(fields.PERF_POLICY_BELOW_BASE_NS, "below_base_clock_s", _NANO),
        _violation(_POLICY_BELOW_BASE, "below_base_clock_s"),
    ),
    (
        field(fields.ECC_SBE_AGGREGATE, "ecc_corrected_aggregate"),
        one("nvmlDeviceGetTotalEccErrors", "ecc_corrected_aggregate", _ECC_CORRECTED, _ECC_AGGREGATE, ctype="Q"),
    ),
    (
        field(fields.ECC_DBE_AGGREGATE, "ecc_uncorrected_aggregate"),
        one("nvmlDeviceGetTotalEccErrors", "ecc_uncorrected_aggregate", _ECC_UNCORRECTED, _ECC_AGGREGATE, ctype="Q"),
    ),
    (field(fields.REMAPPED_CORRECTED, "remapped_rows_corrected"),),
    (field(fields.REMAPPED_UNCORRECTED, "remapped_rows_uncorrected"),),
    (field(fields.REMAPPED_PENDING, "remap_pending"),),
    (field(fields.REMAPPED_FAILED, "remap_failed"),),
    (field(fields.RETIRED_SBE, "retired_pages_corrected"),),
    (field(fields.RETIRED_DBE, "retired_pages_uncorrected"),),
    (field(fields.RETIRED_PENDING, "retired_pages_pending"),),
    (field(fields.PCIE_REPLAY_ROLLOVER, "pcie_replay_rollovers"),),
    (field(fields.PCIE_L0_TO_RECOVERY, "pcie_recoveries"),),
    (field(fields.PCIE_CORRECTABLE, "pcie_correctable"),),
    (field(fields.PCIE_NAKS_RECEIVED, "pcie_naks_received"),),
    (field(fields.PCIE_RECEIVER_ERRORS, "pcie_receiver_errors"),),
    (field(fields.PCIE_BAD_TLPS, "pcie_bad_tlps"),),
    (field(fields.PCIE_NAKS_SENT, "pcie_naks_sent"),),
    (field(fields.PCIE_BAD_DLLPS, "pcie_bad_dllps"),),
    (field(fields.PCIE_NON_FATAL, "pcie_nonfatal"),),
    (field(fields.PCIE_FATAL, "pcie_fatal"),),
    (field(fields.PCIE_UNSUPPORTED_REQUESTS, "pcie_unsupported_requests"),),
    (field(fields.PCIE_LCRC_ERRORS, "pcie_lcrc_errors"),),
    (field(fields.PCIE_LANE_ERRORS, "pcie_lane_errors"),),
    (field(fields.PCIE_TX_BYTES, "pcie_tx_bytes"),),
    (field(fields.PCIE_RX_BYTES, "pcie_rx_bytes"),),
    # The status before the action was 1 where a reset is wanted, which the action writes 1 as well.
    (field(fields.RECOVERY_ACTION, "recovery_action"), field(fields.RESET_STATUS, "recovery_action")),
    (field(fields.DRAIN_AND_RESET_STATUS, "drain_reset_wanted"),),
)


def _modes(function: str, now: str, pending: str) -> ScalarSource:
    return ScalarSource(
        function=function, preset=(0, 0), pointers=Pointers.EACH, outputs=((0, now, 1.0), (1, pending, 1.0))
    )


def _traffic(counter_field: int, direction: int, signal: str) -> Want:
    """Traffic in KiB/s over a sample that takes 20 ms; not where the GPU counts bytes, which costs nothing."""
    return (
        FieldSource(field_id=counter_field, signal=signal, factor=1.0, elsewhere=True),
        one("nvmlDeviceGetPcieThroughput", signal, direction, factor=_KIB),
    )


RARE: tuple[Want, ...] = (
    (
        one("nvmlDeviceGetFanSpeed_v2", "fan_ratio", 0, factor=_PERCENT),
        one("nvmlDeviceGetFanSpeed", "fan_ratio", factor=_PERCENT),
    ),
    (ScalarSource(function="nvmlDeviceGetFanSpeedRPM", preset=(_FAN_SPEED_V1, 0, 0), outputs=((2, "fan_rpm", 1.0),)),),
    (field(fields.TLIMIT_SHUTDOWN_C, "tlimit_shutdown_c"),),
    (field(fields.TLIMIT_SLOWDOWN_C, "tlimit_slowdown_c"),),
    (field(fields.TLIMIT_MEMORY_MAX_C, "tlimit_memory_max_c"),),
    (field(fields.TLIMIT_GPU_MAX_C, "tlimit_gpu_max_c"),),
    (one("nvmlDeviceGetTemperatureThreshold", "memory_max_temp_c", _THRESHOLD_MEMORY_MAX),),
    (one("nvmlDeviceGetTemperatureThreshold", "gpu_max_temp_c", _THRESHOLD_GPU_MAX),),
    (field(fields.POWER_LIMIT_MIN_MW, "power_limit_min_w", _MILLI),),
    (field(fields.POWER_LIMIT_MAX_MW, "power_limit_max_w", _MILLI),),
    (
        field(fields.POWER_LIMIT_DEFAULT_MW, "power_limit_default_w", _MILLI),
        one("nvmlDeviceGetPowerManagementDefaultLimit", "power_limit_default_w", factor=_MILLI),
    ),
    (
        field(fields.POWER_LIMIT_REQUESTED_MW, "power_limit_requested_w", _MILLI),
        one("nvmlDeviceGetPowerManagementLimit", "power_limit_requested_w", factor=_MILLI),
    ),
    (one("nvmlDeviceGetMaxClockInfo", "max_mem_clock_mhz", _CLOCK_MEM),),
    (one("nvmlDeviceGetApplicationsClock", "app_mem_clock_mhz", _CLOCK_MEM),),
    (one("nvmlDeviceGetDefaultApplicationsClock", "default_app_clock_mhz", _CLOCK_GRAPHICS),),
    (one("nvmlDeviceGetMaxCustomerBoostClock", "boost_max_clock_mhz", _CLOCK_GRAPHICS),),
    (one("nvmlDeviceGetMaxPcieLinkGeneration", "max_pcie_generation"),),
    (one("nvmlDeviceGetMaxPcieLinkWidth", "max_pcie_width"),),
    _traffic(fields.PCIE_TX_BYTES, _PCIE_TX, "pcie_tx_spot_bytes_per_s"),
    _traffic(fields.PCIE_RX_BYTES, _PCIE_RX, "pcie_rx_spot_bytes_per_s"),
    (_modes("nvmlDeviceGetMigMode", "mig_mode", "mig_mode_pending"),),
    (field(fields.ECC_MODE, "ecc_mode"),),
    (field(fields.ECC_MODE_PENDING, "ecc_mode_pending"),),
    (
        ScalarSource(
            function="nvmlDeviceGetGpuFabricInfoV",
            ctype="B",
            preset=_FABRIC_V2_PRESET,
            outputs=((28, "fabric_state", 1.0), (32, "fabric_health", 1.0)),
        ),
        ScalarSource(
            function="nvmlDeviceGetGpuFabricInfo",
            ctype="B",
            preset=_FABRIC_V1_PRESET,
            outputs=((24, "fabric_state", 1.0),),
        ),
    ),
)
