"""The signal catalogue: every measured quantity, declared once.

Documentation, store schema, dashboards and Prometheus names are generated from `CATALOGUE`. A name ends in its unit;
ratios run from 0 to 1. Adding a signal here is all it takes for the store, the page and the references to know it.
"""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.entities import EntityKind


class SignalKind(StrEnum):
    """How a signal behaves over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    FLAGS = "flags"


class RateClass(StrEnum):
    """Which sampling group reads it: at the speed of its sensor, every second, or every few seconds."""

    FAST = "fast"
    SLOW = "slow"
    RARE = "rare"


class Source(StrEnum):
    """Where its values come from."""

    NVML = "nvml"
    HWMON = "hwmon"
    PCI = "pci"
    HOST = "psutil"
    AGENT = "agent"
    BMC = "bmc"
    PMBUS = "pmbus"
    PROBE = "probe"
    NVLINK = "nvlink"
    PROC = "proc"
    JOB = "job"


# Sources that no collector reads yet; recordings of simulated nodes have them.
SIMULATED_SOURCES = (Source.BMC, Source.PMBUS, Source.PROBE, Source.NVLINK, Source.PROC, Source.JOB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One measured quantity.

    Parameters
    ----------
    name
        Unique within its entity kind; ends in its unit.
    unit
        The unit as people write it; ``""`` for counts and flags.
    decimals
        Digits behind the point that carry information: what the store and the wire keep.
    meaning
        One sentence for the references.
    """

    entity: EntityKind
    name: str
    unit: str
    kind: SignalKind
    rate: RateClass
    source: Source
    decimals: int
    meaning: str


def _signals(
    entity: EntityKind, source: Source, rate: RateClass, rows: tuple[tuple[str, str, SignalKind, int, str], ...]
) -> tuple[Signal, ...]:
    return tuple(
        Signal(
            entity=entity,
            name=name,
            unit=unit,
            kind=kind,
            rate=rate,
            source=source,
            decimals=decimals,
            meaning=meaning,
        )
        for name, unit, kind, decimals, meaning in rows
    )


_G, _C, _F = SignalKind.GAUGE, SignalKind.COUNTER, SignalKind.FLAGS

_GPU_FAST = _signals(
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
_GPU_SLOW = _signals(
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
_GPU_BUS = _signals(
    EntityKind.GPU,
    Source.PCI,
    RateClass.SLOW,
    (
        ("pci_present", "", _F, 0, "1 while the PCI device is on the bus, 0 once it is gone."),
        ("aer_correctable", "", _C, 0, "Correctable PCIe errors that the kernel counted for the device."),
        ("aer_fatal", "", _C, 0, "Fatal PCIe errors that the kernel counted for the device."),
    ),
)
_SUPPLY = _signals(
    EntityKind.SUPPLY,
    Source.HWMON,
    RateClass.FAST,
    (
        ("voltage_v", "V", _G, 3, "Voltage at the sensor, on a 12 V rail at the load's end."),
        ("current_a", "A", _G, 3, "Current through the sensor's shunt, from the same conversion as the voltage."),
    ),
)
_SUPPLY_OWN = _signals(
    EntityKind.SUPPLY,
    Source.PMBUS,
    RateClass.SLOW,
    (
        ("input_voltage_v", "V", _G, 2, "Mains voltage at the supply's input, as the supply tells it."),
        ("power_w", "W", _G, 1, "Power that the supply delivers, as the supply tells it."),
    ),
)
_SUPPLY_JOINT = _signals(
    EntityKind.SUPPLY,
    Source.PROBE,
    RateClass.SLOW,
    (("joint_temp_c", "°C", _G, 2, "Temperature at the joint between the supply's cable and the bus."),),
)
_FAN = _signals(
    EntityKind.FAN,
    Source.BMC,
    RateClass.SLOW,
    (
        ("fan_rpm", "rpm", _G, 0, "Speed by the fan's tachometer."),
        ("fan_ratio", "ratio", _G, 3, "Duty that the fan is driven with."),
    ),
)
_LINK = _signals(
    EntityKind.LINK,
    Source.NVLINK,
    RateClass.SLOW,
    (
        ("nvlink_crc_errors", "", _C, 0, "Flits that arrived damaged."),
        ("nvlink_replays", "", _C, 0, "Transmissions that were repeated."),
    ),
)
_NODE = _signals(
    EntityKind.NODE,
    Source.HOST,
    RateClass.SLOW,
    (
        ("cpu_util_ratio", "ratio", _G, 4, "Share of all cores that was busy."),
        ("load_1min", "", _G, 2, "Load average over one minute."),
        ("memory_used_bytes", "B", _G, 0, "Memory that is not available to new programs."),
        ("memory_total_bytes", "B", _G, 0, "Memory installed."),
        ("swap_used_bytes", "B", _G, 0, "Swap in use."),
        ("inlet_temp_c", "°C", _G, 1, "Air temperature at the inlet, where a sensor is labelled so."),
    ),
)
_NODE_BMC = _signals(
    EntityKind.NODE,
    Source.BMC,
    RateClass.SLOW,
    (
        ("rail_voltage_v", "V", _G, 3, "Voltage of the 12 V rail as the board's controller measures it."),
        ("outlet_temp_c", "°C", _G, 1, "Air temperature at the outlet."),
    ),
)
_NODE_PROC = _signals(
    EntityKind.NODE,
    Source.PROC,
    RateClass.SLOW,
    (
        ("nv_queue_ratio", "ratio", _G, 4, "Share of a processor that the driver's kernel thread nv_queue takes."),
        ("nv_irq_ratio", "ratio", _G, 4, "Share of a processor that the GPUs' interrupt threads take."),
    ),
)
_JOB = _signals(
    EntityKind.JOB,
    Source.JOB,
    RateClass.SLOW,
    (("steps", "", _C, 0, "Training steps that have ended."),),
)
_AGENT = _signals(
    EntityKind.AGENT,
    Source.AGENT,
    RateClass.SLOW,
    (
        ("cpu_ratio", "ratio", _G, 4, "CPU time of the sampling process over wall time, in cores."),
        ("resident_bytes", "B", _G, 0, "Resident memory of the sampling process."),
        ("tick_late_p99_s", "s", _G, 6, "99th percentile of how late the fast ticks of the last second came."),
        ("driver_s", "s", _C, 6, "Time spent inside driver calls."),
        ("ticks", "", _C, 0, "Fast ticks done."),
        ("overruns", "", _C, 0, "Ticks skipped because the one before had not ended."),
        ("updates_kept", "", _C, 0, "Distinct sensor updates kept."),
        ("collector_errors", "", _C, 0, "Reads that raised, over all collectors."),
        ("collector_hangs", "", _C, 0, "Reads that missed their deadline, over all collectors."),
        ("oldest_signal_age_s", "s", _G, 3, "Age of the oldest collector's last good read."),
        ("ring_rows_lost", "", _C, 0, "Ring rows overwritten before the service read them."),
        ("kernel_lines_unparsed", "", _C, 0, "Driver lines of the kernel log kept as text because no pattern fits."),
        ("spool_bytes", "B", _G, 0, "Bytes that wait on disk for the store."),
        ("spool_dropped_points", "", _C, 0, "Points given up because the spool was full."),
        ("uplink_errors", "", _C, 0, "Writes that the store refused or that did not reach it."),
    ),
)

CATALOGUE: tuple[Signal, ...] = (
    *_GPU_FAST,
    *_GPU_SLOW,
    *_GPU_BUS,
    *_SUPPLY,
    *_SUPPLY_OWN,
    *_SUPPLY_JOINT,
    *_FAN,
    *_LINK,
    *_NODE,
    *_NODE_BMC,
    *_NODE_PROC,
    *_JOB,
    *_AGENT,
)


def signals_of(
    entity: EntityKind, *, source: Source | None = None, rate: RateClass | None = None
) -> tuple[Signal, ...]:
    """Give the signals of one entity kind, in catalogue order, narrowed by source and rate class."""
    return tuple(
        signal
        for signal in CATALOGUE
        if signal.entity is entity and source in (None, signal.source) and rate in (None, signal.rate)
    )


def signal(entity: EntityKind, name: str) -> Signal:
    """Give one signal of the catalogue; KeyError where there is none of that name."""
    for candidate in CATALOGUE:
        if candidate.entity is entity and candidate.name == name:
            return candidate
    raise KeyError(f"{entity}.{name} is not in the signal catalogue")
