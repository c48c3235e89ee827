"""Summaries and evidence of the `hotter_than_siblings` detector."""

from dataclasses import dataclass

from analytics.detectors.limits import HotterThanSiblingsLimits
from analytics.detectors.statements import Statement, evidence
from telemetry.quantities import multiple
from telemetry.records import FindingStatus, Severity

# 30 % over the siblings is the far end of the score, the level that physics-based estimators call severe.
_WORST_RATIO = 1.30
# heuristic: a slot that adds less is as its siblings' are.
_NOTABLE_C = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HotGpu:
    """One GPU beside its siblings: `rise_c` over the inlet, `over_c` hotter than they are.

    Of `over_c`, `slot_c` is by its slot and `excess_c` is unexplained. `sibling_c` is the temperature that it would
    have with its siblings' thermal resistance, `ratio` its thermal resistance over what is normal for it.
    `order_ratio` is that over GPUs of the same air, `order_limit_ratio` what these differ by.
    """

    name: str
    power_w: float
    temp_c: float
    rise_c: float
    sibling_c: float
    over_c: float
    slot_c: float
    excess_c: float
    ratio: float
    order_ratio: float
    order_limit_ratio: float
    seconds: float


def change_statement(gpu: HotGpu, status: FindingStatus, limits: HotterThanSiblingsLimits) -> Statement:
    """Return the statement on a GPU that is hotter than its siblings and its slot explain."""
    against = "its siblings" if abs(gpu.slot_c) < _NOTABLE_C else "is usual for its slot"
    summary = (
        f"{gpu.name} {gpu.excess_c:.0f} K hotter than {against} at {gpu.power_w:.0f} W "
        f"({gpu.temp_c:.0f} °C, thermal resistance {multiple(gpu.ratio)})"
        if status is not FindingStatus.CLEARED
        else f"{gpu.name} as warm as its siblings at {gpu.power_w:.0f} W ({gpu.temp_c:.0f} °C)"
    )
    return Statement(
        severity=Severity.WARNING,
        score=(gpu.ratio - 1.0) / (_WORST_RATIO - 1.0),
        summary=summary,
        evidence=evidence(
            ("excess_c", gpu.excess_c, "K"),
            ("limit_c", limits.excess_c, "K"),
            *_readings(gpu),
            ("theta_ratio", gpu.ratio, "ratio"),
            ("excess_c_per_w", gpu.excess_c / gpu.power_w, "K/W"),
            ("duration_s", gpu.seconds, "s"),
        ),
    )


def slot_statement(gpu: HotGpu, status: FindingStatus) -> Statement:
    """Return the statement on a GPU that is hotter than those of the same air, maybe since the start."""
    more_c = gpu.rise_c * (1.0 - 1.0 / gpu.order_ratio)
    summary = (
        f"{gpu.name} {more_c:.0f} K hotter than GPUs in the same air ({gpu.temp_c:.0f} °C at {gpu.power_w:.0f} W): "
        "mounting or interface"
        if status is not FindingStatus.CLEARED
        else f"{gpu.name} as warm as its slot lets expect at {gpu.power_w:.0f} W ({gpu.temp_c:.0f} °C)"
    )
    return Statement(
        severity=Severity.WARNING,
        score=(gpu.order_ratio - 1.0) / (2.0 * (gpu.order_limit_ratio - 1.0)),
        summary=summary,
        evidence=evidence(
            ("excess_c", more_c, "K"),
            ("theta_ratio", gpu.order_ratio, "ratio"),
            ("limit_ratio", gpu.order_limit_ratio, "ratio"),
            *_readings(gpu),
            ("duration_s", gpu.seconds, "s"),
        ),
    )


def _readings(gpu: HotGpu) -> tuple[tuple[str, float, str], ...]:
    """Return what is seen of a GPU, as evidence of either statement."""
    return (
        ("slot_offset_c", gpu.slot_c, "K"),
        ("sibling_median_c", gpu.sibling_c, "°C"),
        ("gpu_temp_c", gpu.temp_c, "°C"),
        ("power_w", gpu.power_w, "W"),
    )
