"""Summaries and evidence of the `thermal_resistance` detector."""

from dataclasses import dataclass

import numpy as np

from analytics.detectors.heat_limits import ThermalResistanceLimits
from analytics.detectors.statements import Statement, evidence
from analytics.heat.comparison import Comparison
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray
from telemetry.records import FindingStatus, Severity

# heuristic: share of an excess that must grow with power to be called an interface.
_GROWS_ABOVE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
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

    @staticmethod
    def nothing(n_gpus: int) -> "WindowReadings":
        """Return the values before the first window, all NaN."""
        nan = np.full(n_gpus, np.nan)
        return WindowReadings(
            power_w=nan.copy(),
            felt_w=nan.copy(),
            temp_c=nan.copy(),
            air_c=nan.copy(),
            rise_c=nan.copy(),
            sibling_rise_c=nan.copy(),
            normal_c=nan.copy(),
        )

    def renewed(self, compared: Comparison, normal_c: FloatArray, *, where: MaskArray) -> "WindowReadings":
        """Return the readings with those of a window where it has some."""
        return WindowReadings(
            power_w=np.where(where, compared.power_w, self.power_w),
            felt_w=np.where(where, compared.felt_w, self.felt_w),
            temp_c=np.where(where, compared.temp_c, self.temp_c),
            air_c=np.where(where, compared.air_c, self.air_c),
            rise_c=np.where(where, compared.rise_c, self.rise_c),
            sibling_rise_c=np.where(where, compared.sibling_rise_c, self.sibling_rise_c),
            normal_c=np.where(where, normal_c, self.normal_c),
        )

    def of(self, index: int) -> Numbers:
        """Return the readings of one GPU."""
        return Numbers(
            power_w=float(self.power_w[index]),
            felt_w=float(self.felt_w[index]),
            temp_c=float(self.temp_c[index]),
            air_c=float(self.air_c[index]),
            rise_c=float(self.rise_c[index]),
            sibling_rise_c=float(self.sibling_rise_c[index]),
            normal_c=float(self.normal_c[index]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalStatus:
    """One GPU and its finding; `alone` means without siblings, `quick` and `slow` are the excess ratios."""

    entity: Entity
    status: FindingStatus
    seconds: float
    alone: bool
    grown_share: float
    constant: bool
    quick: float
    slow: float


def describe(subject: ThermalStatus, now: Numbers, limits: ThermalResistanceLimits) -> Statement:
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
