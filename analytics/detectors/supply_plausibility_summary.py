"""Summaries and evidence of the `supply_plausibility` detector."""

from dataclasses import dataclass
from enum import StrEnum

from analytics.detectors.statements import Statement, evidence
from telemetry.quantities import percent
from telemetry.records import FindingStatus, Severity


class ReadingFault(StrEnum):
    """Faults of the readings; the first that holds is reported."""

    VOLTAGE_STUCK = "voltage stuck"
    CURRENT_STUCK = "current stuck"
    SKEWED = "voltage and current not taken together"
    VOLTAGE_FELL = "voltage fell alone"
    POWER = "power differs from voltage times current"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyReadings:
    """Readings of one supply in the newest block.

    `bus_blur` is the part of the current's variance that the currents of its bus leave unexplained, `usual_bus_blur`
    what they usually leave. `usual_v` is the usual spread of the voltage, `level_v` its usual value. `by_bus` is true
    where the current left its bus and its pair does not show it by itself.
    """

    name: str
    mean_v: float
    mean_a: float
    spread_v: float
    spread_a: float
    usual_v: float
    level_v: float
    correlation: float
    by_bus: bool
    bus_blur: float
    usual_bus_blur: float
    mismatch: float
    seconds: float


def reading_statement(
    readings: SupplyReadings, fault: ReadingFault | None, status: FindingStatus, *, power_ratio: float
) -> Statement:
    """Return the statement on readings that contradict each other; `power_ratio` is the limit of the powers."""
    text = "readings agree again" if fault is None or status is FindingStatus.CLEARED else _fault_text(readings, fault)
    return Statement(
        severity=Severity.WARNING,
        score=0.5 if fault is not ReadingFault.POWER else abs(readings.mismatch) / (4 * power_ratio),
        summary=f"{readings.name} sensors: {text}",
        evidence=evidence(
            ("voltage_v", readings.mean_v, "V"),
            ("voltage_spread_v", readings.spread_v, "V"),
            ("usual_spread_v", readings.usual_v, "V"),
            ("current_a", readings.mean_a, "A"),
            ("current_spread_a", readings.spread_a, "A"),
            ("correlation", readings.correlation, ""),
            ("bus_unexplained_ratio", readings.bus_blur, "ratio"),
            ("usual_bus_unexplained_ratio", readings.usual_bus_blur, "ratio"),
            ("power_mismatch_ratio", readings.mismatch, "ratio"),
            ("duration_s", readings.seconds, "s"),
        ),
    )


def _fault_text(readings: SupplyReadings, fault: ReadingFault) -> str:
    match fault:
        case ReadingFault.VOLTAGE_STUCK:
            return (
                f"voltage repeats {readings.mean_v:.3f} V exactly while the current varies by {readings.spread_a:.2g} A"
            )
        case ReadingFault.CURRENT_STUCK:
            return (
                f"current repeats {readings.mean_a:.2f} A exactly while the voltage varies by {readings.spread_v:.3f} V"
            )
        case ReadingFault.SKEWED if readings.by_bus:
            return (
                f"current no longer follows its bus ({percent(readings.bus_blur)} unexplained, "
                f"usually {percent(readings.usual_bus_blur)})"
            )
        case ReadingFault.SKEWED:
            return f"voltage and current no longer taken together (correlation {readings.correlation:.2f})"
        case ReadingFault.VOLTAGE_FELL:
            return (
                f"voltage fell from {readings.level_v:.2f} V to {readings.mean_v:.2f} V at the same current: its meter"
            )
        case ReadingFault.POWER:
            return f"power differs from voltage times current by {percent(readings.mismatch)}, at most 5 % expected"
