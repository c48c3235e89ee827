"""Summaries and evidence of the `thermal_resistance` detector."""

from dataclasses import dataclass, fields

from analytics.detectors.heat_limits import ThermalResistanceLimits
from analytics.detectors.statements import Statement, evidence
from analytics.heat.comparison import HeatComparison
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray, reset_where
from telemetry.records import FindingStatus, Severity

# heuristic: share of an excess that must grow with power to be called an interface.
_GROWS_ABOVE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReadings:
    """Readings of one GPU in the newest window under load."""

    power_w: float
    felt_w: float
    temp_c: float
    air_c: float
    rise_c: float
    sibling_rise_c: float
    normal_c: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowReadings:
    """Readings of every GPU in its newest window under load, shape ``(n_gpus,)``; `normal_c` is the normal rise."""

    power_w: FloatArray
    felt_w: FloatArray
    temp_c: FloatArray
    air_c: FloatArray
    rise_c: FloatArray
    sibling_rise_c: FloatArray
    normal_c: FloatArray

    def renewed(self, compared: HeatComparison, normal_c: FloatArray, *, where: MaskArray) -> "WindowReadings":
        """Return the readings with those of a window where it has some."""
        newest = WindowReadings(
            power_w=compared.power_w,
            felt_w=compared.felt_w,
            temp_c=compared.temp_c,
            air_c=compared.air_c,
            rise_c=compared.rise_c,
            sibling_rise_c=compared.sibling_rise_c,
            normal_c=normal_c,
        )
        return reset_where(self, newest, where)

    def of(self, index: int) -> GpuReadings:
        """Return the readings of one GPU."""
        return GpuReadings(**{field.name: float(getattr(self, field.name)[index]) for field in fields(GpuReadings)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalStatus:
    """GPU and its finding; `alone` means without siblings, `quick` and `slow` are the excess ratios."""

    entity: Entity
    status: FindingStatus
    seconds: float
    alone: bool
    grown_share: float
    constant: bool
    quick: float
    slow: float


def describe(subject: ThermalStatus, now: GpuReadings, limits: ThermalResistanceLimits) -> Statement:
    """Return the statement on one GPU."""
    excess_c = now.rise_c - now.normal_c
    name, power = subject.entity.label, f"{now.power_w:.0f} W"
    if subject.status is FindingStatus.CLEARED:
        summary = f"{name} as warm as expected at {power}"
    else:
        against = "in its own past" if subject.alone else "expected"
        summary = (
            f"{name} {excess_c:.1f} K hotter than {against} at {power} ({1e3 * now.rise_c / now.felt_w:.0f} K/kW, "
            f"normal {1e3 * now.normal_c / now.felt_w:.0f}): {_cause_text(subject)}"
        )
    return Statement(
        severity=_severity(subject, limits),
        score=max(subject.quick, subject.slow) / limits.severe_ratio,
        summary=summary,
        evidence=evidence(
            ("excess_c", excess_c, "K"),
            ("theta_ratio", now.rise_c / now.normal_c, "ratio"),
            ("smoothed_theta_ratio", 1.0 + subject.quick, "ratio"),
            ("theta_ratio_hours", 1.0 + subject.slow, "ratio"),
            ("limit_ratio", 1.0 + (limits.alone_ratio if subject.alone else limits.ratio), "ratio"),
            ("theta_k_per_w", now.rise_c / now.felt_w, "K/W"),
            ("normal_k_per_w", now.normal_c / now.felt_w, "K/W"),
            ("slot_offset_c", now.normal_c - now.sibling_rise_c, "K"),
            ("gpu_temp_c", now.temp_c, "°C"),
            ("sibling_median_c", now.air_c + now.sibling_rise_c, "°C"),
            ("inlet_temp_c", now.air_c, "°C"),
            ("power_w", now.power_w, "W"),
            ("grows_with_power_ratio", subject.grown_share, "ratio"),
            ("duration_s", subject.seconds, "s"),
        ),
    )


def _severity(subject: ThermalStatus, limits: ThermalResistanceLimits) -> Severity:
    if subject.quick > limits.severe_ratio and not subject.constant:
        return Severity.CRITICAL
    if subject.quick > (limits.alone_ratio if subject.alone else limits.warn_ratio):
        return Severity.WARNING
    return Severity.INFO


def _cause_text(subject: ThermalStatus) -> str:
    if subject.constant:
        return "warm air at its slot"
    if subject.grown_share > _GROWS_ABOVE:
        return "thermal interface suspected"
    return "check inlet and fans too" if subject.alone else "thermal interface or slot air"
