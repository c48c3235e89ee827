"""NVML calls of the signals that seldom change or take long: limits, modes, fans, PCIe traffic."""

from agent.driver import nvml_fields as fields
from agent.driver.nvml_signals import FieldSource, Pointers, ScalarSource, Want, field, one

_CLOCK_GRAPHICS, _CLOCK_MEM = 0, 2
_THRESHOLD_MEMORY_MAX, _THRESHOLD_GPU_MAX = 2, 3
_PCIE_TX, _PCIE_RX = 0, 1
_MILLI, _PERCENT, _KIB = 1e-3, 1e-2, 1024.0
# nvmlFanSpeedInfo_v1_t is version, fan, speed in rpm: 12 bytes; a version field is size | version << 24.
_FAN_SPEED_V1 = 12 | 1 << 24
# nvmlGpuFabricInfo_v2_t in bytes: version, 16 of the cluster, status, clique, then state at 28 and health mask at 32.
_FABRIC_V2 = 36 | 2 << 24
_FABRIC_V2_PRESET = (*_FABRIC_V2.to_bytes(4, "little"), *(0,) * 32)
# nvmlGpuFabricInfo_t: the same without a version and a health mask; state at 24 of 28 bytes.
_FABRIC_V1_PRESET = (0,) * 28


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
