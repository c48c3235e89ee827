"""Signals that the fleet reads of each kind of entity, and the statistic of a second that represents each."""

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.rollup import statistics_of
from telemetry.signals import RateClass, SignalKind, signal

# The signals that detectors look at; what else is stored costs only its reading.
JUDGED: dict[EntityKind, tuple[str, ...]] = {
    EntityKind.NODE: ("inlet_temp_c", "nv_queue_ratio", "nv_irq_ratio"),
    EntityKind.GPU: (
        "power_w", "sm_clock_mhz", "gpu_util_ratio", "mem_util_ratio", "throttle_reasons", "gpu_temp_c", "hbm_temp_c",
        "slowdown_temp_c", "margin_c", "power_limit_w", "memory_used_bytes", "power_brake_s", "pci_present",
        "pcie_generation", "pcie_width", "max_pcie_generation", "max_pcie_width", "pcie_replays",
        "pcie_replay_rollovers", "pcie_correctable", "aer_correctable", "fan_ratio", "fan_rpm",
    ),
    EntityKind.SUPPLY: ("voltage_v", "current_a", "voltage_min_v", "power_w", "fan_rpm"),
    EntityKind.FAN: ("fan_rpm", "fan_ratio"),
    EntityKind.LINK: (
        "nvlink_crc_errors", "nvlink_replays", "nvlink_recoveries", "nvlink_symbol_errors", "nvlink_up",
    ),
    EntityKind.JOB: ("steps",),
}  # fmt: skip

# How long a value stands for what comes after it. A second without it is a sensor that was slow; heuristic: two of the
# fast and slow groups' seconds and one to arrive in, and three rounds of what is read every ten seconds.
HOLD_NS: dict[RateClass, int] = {
    RateClass.FAST: 3 * NS_PER_S,
    RateClass.SLOW: 3 * NS_PER_S,
    RateClass.RARE: 30 * NS_PER_S,
}


def statistic_of(kind: EntityKind, name: str) -> str:
    """Return which statistic of a second stands for a signal.

    A mean of voltage and one of current belong together as two readings at one moment do, because a source is linear.
    Flags and counters, and what is read once a second, have one value: the last.
    """
    if name == "voltage_min_v":
        return "min"
    found = signal(kind, name)
    has_mean = "mean" in statistics_of(kind, name)
    return "mean" if has_mean and found.kind is SignalKind.GAUGE and found.rate is RateClass.FAST else "last"


def column_of(kind: EntityKind, name: str) -> str:
    """Return the name under which the store has it."""
    return f"{name}_{statistic_of(kind, name)}"


def hold_ns(kind: EntityKind, name: str) -> int:
    """Return how long a value of the signal stands."""
    return HOLD_NS[signal(kind, name).rate]
