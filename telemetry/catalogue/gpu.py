"""What a GPU shows through its driver and on its bus."""

from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G, _C, _F = SignalKind.GAUGE, SignalKind.COUNTER, SignalKind.FLAGS

_GPU_FAST = declare(
    EntityKind.GPU,
    Source.NVML,
    RateClass.FAST,
    (
        ("power_w", "W", _G, 3, "Board power over the sensor's own window (10 ms on V100, 25 ms on A100 and H100)."),
        ("sm_clock_mhz", "MHz", _G, 0, "Clock of the streaming multiprocessors."),
        ("mem_clock_mhz", "MHz", _G, 0, "Clock of the memory."),
        ("gpu_util_ratio", "ratio", _G, 2, "Share of time in which a kernel ran."),
        ("mem_util_ratio", "ratio", _G, 2, "Share of time in which memory was read or written."),
        ("throttle_reasons", "", _F, 0, "Clock event reasons as the NVML bit mask."),
    ),
)
_GPU_SLOW = declare(
    EntityKind.GPU,
    Source.NVML,
    RateClass.SLOW,
    (
        ("energy_j", "J", _C, 3, "Energy since the driver was loaded."),
        ("gpu_temp_c", "°C", _G, 0, "Temperature of the GPU die."),
        ("hbm_temp_c", "°C", _G, 0, "Temperature of the memory."),
        ("slowdown_temp_c", "°C", _G, 0, "Die temperature at which the hardware slows down."),
        ("shutdown_temp_c", "°C", _G, 0, "Die temperature at which the GPU shuts down."),
        ("power_limit_w", "W", _G, 3, "Power limit in force, the lowest of all limiters."),
        ("max_sm_clock_mhz", "MHz", _G, 0, "Highest clock of the streaming multiprocessors."),
        ("app_clock_mhz", "MHz", _G, 0, "Applications clock of the streaming multiprocessors."),
        ("memory_used_bytes", "B", _G, 0, "Memory in use, driver reserve included."),
        ("memory_total_bytes", "B", _G, 0, "Memory installed."),
        ("pcie_generation", "", _G, 0, "PCIe generation at which the link runs now."),
        ("pcie_width", "", _G, 0, "PCIe lanes in use now."),
        ("pcie_replays", "", _C, 0, "PCIe replay counter."),
        ("ecc_corrected", "", _C, 0, "Corrected ECC errors since the driver was loaded."),
        ("ecc_uncorrected", "", _C, 0, "Uncorrected ECC errors since the driver was loaded."),
        ("power_violation_s", "s", _C, 6, "Time below the wanted clock for the sake of the power limit."),
        ("thermal_violation_s", "s", _C, 6, "Time below the wanted clock for the sake of temperature."),
        ("power_brake_s", "s", _C, 6, "Time under the hardware power brake, where the driver counts it."),
        ("hw_thermal_s", "s", _C, 6, "Time under hardware thermal slowdown, where the driver counts it."),
        ("fan_ratio", "ratio", _G, 2, "Intended fan speed; absent on passive boards."),
    ),
)
_GPU_BUS = declare(
    EntityKind.GPU,
    Source.PCI,
    RateClass.SLOW,
    (
        ("pci_present", "", _F, 0, "1 while the PCI device is on the bus, 0 once it is gone."),
        ("aer_correctable", "", _C, 0, "Correctable PCIe errors that the kernel counted for the device."),
        ("aer_fatal", "", _C, 0, "Fatal PCIe errors that the kernel counted for the device."),
    ),
)

GPU_SIGNALS = (
    *_GPU_FAST,
    *_GPU_SLOW,
    *_GPU_BUS,
)
