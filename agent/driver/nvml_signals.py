"""Which NVML call gives which signal: the catalogue's columns against the functions and field ids of ``nvml.h``.

Each want lists its sources best first; the first that a GPU answers is the one that is asked from then on.
"""

from dataclasses import dataclass

from agent.driver import nvml_fields as fields
from agent.driver.nvml_fields import ThrottleCounterIds

_CLOCK_SM, _CLOCK_MEM, _CLOCK_GRAPHICS = 1, 2, 0
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN = 0, 1
_POLICY_POWER, _POLICY_THERMAL = 0, 1
_ECC_CORRECTED, _ECC_UNCORRECTED, _ECC_VOLATILE = 0, 1, 0
# nvmlTemperature_v1_t is version, sensor, temperature: 12 bytes; a version word is size | version << 24.
_TEMPERATURE_V1 = 12 | 1 << 24
_MILLI, _NANO, _PERCENT = 1e-3, 1e-9, 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSource:
    """One function that fills a few machine words.

    Parameters
    ----------
    function
        Its name in the library, called as ``function(handle, *arguments, words)``.
    word
        ctypes code of one output word: ``I`` unsigned 32 bit, ``i`` signed 32 bit, ``Q`` unsigned 64 bit.
    preset
        What the words hold before the call; also how many there are.
    outputs
        ``(word, signal, factor)`` of what is read from them.
    """

    function: str
    arguments: tuple[int, ...] = ()
    word: str = "I"
    preset: tuple[int, ...] = (0,)
    outputs: tuple[tuple[int, str, float], ...]

    @property
    def name(self) -> str:
        """What doctor and the cost table call it."""
        return self.function + (f"({', '.join(map(str, self.arguments))})" if self.arguments else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """One field id, asked for in the batched call together with all others."""

    field_id: int
    signal: str
    factor: float

    @property
    def name(self) -> str:
        """What doctor and the cost table call it."""
        return f"field {self.field_id}"

    @property
    def outputs(self) -> tuple[tuple[int, str, float], ...]:
        """Its one output, in the form of a scalar source."""
        return ((0, self.signal, self.factor),)


Source = ScalarSource | FieldSource
Want = tuple[Source, ...]


def _one(function: str, signal: str, *arguments: int, factor: float = 1.0, word: str = "I") -> ScalarSource:
    return ScalarSource(function=function, arguments=arguments, word=word, outputs=((0, signal, factor),))


def _field(field_id: int, signal: str, factor: float = 1.0) -> FieldSource:
    return FieldSource(field_id=field_id, signal=signal, factor=factor)


FAST: tuple[Want, ...] = (
    # The instant field on every architecture: nvmlDeviceGetPowerUsage is a 1 s mean from GA10x and Hopper on.
    (
        _field(fields.POWER_INSTANT_MW, "power_w", _MILLI),
        _one("nvmlDeviceGetPowerUsage", "power_w", factor=_MILLI),
    ),
    (_one("nvmlDeviceGetClockInfo", "sm_clock_mhz", _CLOCK_SM),),
    (_one("nvmlDeviceGetClockInfo", "mem_clock_mhz", _CLOCK_MEM),),
    (
        ScalarSource(
            function="nvmlDeviceGetUtilizationRates",
            preset=(0, 0),
            outputs=((0, "gpu_util_ratio", _PERCENT), (1, "mem_util_ratio", _PERCENT)),
        ),
    ),
    (
        _one("nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons", word="Q"),
        _one("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons", word="Q"),
    ),
)


def slow_wants(counters: ThrottleCounterIds | None) -> tuple[Want, ...]:
    """Give the slow columns; `counters` are the ids of this driver, None where it has no such counters."""
    return _SLOW if counters is None else (*_SLOW, *_throttle_wants(counters))


def _throttle_wants(counters: ThrottleCounterIds) -> tuple[Want, ...]:
    return (
        (_field(counters.hw_power_brake, "power_brake_s", _NANO),),
        (_field(counters.hw_thermal, "hw_thermal_s", _NANO),),
    )


def _violation(policy: int, signal: str) -> ScalarSource:
    """nvmlViolationTime_t: reference time in us, violation time in ns."""
    return ScalarSource(
        function="nvmlDeviceGetViolationStatus",
        arguments=(policy,),
        word="Q",
        preset=(0, 0),
        outputs=((1, signal, _NANO),),
    )


_SLOW: tuple[Want, ...] = (
    (
        _field(fields.TOTAL_ENERGY_MJ, "energy_j", _MILLI),
        _one("nvmlDeviceGetTotalEnergyConsumption", "energy_j", factor=_MILLI, word="Q"),
    ),
    (
        ScalarSource(
            function="nvmlDeviceGetTemperatureV",
            word="i",
            preset=(_TEMPERATURE_V1, 0, 0),
            outputs=((2, "gpu_temp_c", 1.0),),
        ),
        _one("nvmlDeviceGetTemperature", "gpu_temp_c", 0),
    ),
    (_field(fields.MEMORY_TEMP_C, "hbm_temp_c"),),
    (_one("nvmlDeviceGetTemperatureThreshold", "slowdown_temp_c", _THRESHOLD_SLOWDOWN),),
    (_one("nvmlDeviceGetTemperatureThreshold", "shutdown_temp_c", _THRESHOLD_SHUTDOWN),),
    (_one("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w", factor=_MILLI),),
    (_one("nvmlDeviceGetMaxClockInfo", "max_sm_clock_mhz", _CLOCK_SM),),
    (_one("nvmlDeviceGetApplicationsClock", "app_clock_mhz", _CLOCK_GRAPHICS),),
    (
        # nvmlMemory_t: total, free, used. Its `used` holds the driver's reserve, as the catalogue says.
        ScalarSource(
            function="nvmlDeviceGetMemoryInfo",
            word="Q",
            preset=(0, 0, 0),
            outputs=((2, "memory_used_bytes", 1.0), (0, "memory_total_bytes", 1.0)),
        ),
    ),
    (_one("nvmlDeviceGetCurrPcieLinkGeneration", "pcie_generation"),),
    (_one("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"),),
    (_field(fields.PCIE_REPLAY_COUNTER, "pcie_replays"), _one("nvmlDeviceGetPcieReplayCounter", "pcie_replays")),
    (
        _field(fields.ECC_SBE_VOLATILE, "ecc_corrected"),
        _one("nvmlDeviceGetTotalEccErrors", "ecc_corrected", _ECC_CORRECTED, _ECC_VOLATILE, word="Q"),
    ),
    (
        _field(fields.ECC_DBE_VOLATILE, "ecc_uncorrected"),
        _one("nvmlDeviceGetTotalEccErrors", "ecc_uncorrected", _ECC_UNCORRECTED, _ECC_VOLATILE, word="Q"),
    ),
    (_field(fields.PERF_POLICY_POWER_NS, "power_violation_s", _NANO), _violation(_POLICY_POWER, "power_violation_s")),
    (
        _field(fields.PERF_POLICY_THERMAL_NS, "thermal_violation_s", _NANO),
        _violation(_POLICY_THERMAL, "thermal_violation_s"),
    ),
    (
        _one("nvmlDeviceGetFanSpeed_v2", "fan_ratio", 0, factor=_PERCENT),
        _one("nvmlDeviceGetFanSpeed", "fan_ratio", factor=_PERCENT),
    ),
)
