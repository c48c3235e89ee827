"""Quantities as people write them: values with units, durations, rates, and lines of evidence."""

import math
from collections.abc import Callable

from telemetry.records import Evidence

# heuristic: what fits in one line of a terminal, a pager message and a table row.
SUMMARY_LENGTH = 100
# Ratios of a baseline, of siblings or of a limit ("2.9x"); every other ratio is a share ("97 %").
_MULTIPLES = frozenset(
    {
        "hourly_rise_high_ratio",
        "hourly_rise_low_ratio",
        "hourly_rise_ratio",
        "limit_ratio",
        "rise_ratio",
        "smoothed_theta_ratio",
        "theta_ratio",
        "theta_ratio_hours",
    }
)
_UNIT_SUFFIXES = tuple(
    f"_{unit}"
    for unit in ["k_per_w", "c_per_w", "c_per_s", "ratio", "ohm", "mhz", "rpm", "sd", "v", "a", "w", "c", "s"]
)
_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
_MONTH_DAYS = 365.25 / 12


def ohms(value_ohm: float) -> str:
    """Return a resistance: ``15.1 mΩ``."""
    return f"{value_ohm * 1e3:.{1 if abs(value_ohm) >= 1e-3 else 2}f} mΩ"


def volts(value_v: float) -> str:
    """Return a voltage: ``12.31 V``, and ``230 V`` from 100 V on."""
    return f"{value_v:.{0 if abs(value_v) >= 100 else 2}f} V"


def multiple(ratio: float) -> str:
    """Return a ratio of a baseline: ``2.9x``, and ``1.08x`` where one digit would hide a change."""
    return f"{ratio:.{1 if ratio >= 1.5 else 2}f}x"


def percent(ratio: float) -> str:
    """Return a share of 0 to 1: ``97 %``."""
    return f"{ratio * 100:.0f} %"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit: ``under 0.1 s``, ``12 s``, ``3.5 min``, ``2 h``, ``2.5 d``."""
    if seconds < 0.1:
        return "under 0.1 s"
    for limit, size, unit in ((10.0, 1.0, "s"), (2 * _MINUTE_S, 1.0, "s"), (2 * _HOUR_S, _MINUTE_S, "min")):
        if seconds < limit:
            return f"{_short(seconds / size)} {unit}"
    return f"{_short(seconds / _HOUR_S)} h" if seconds < 2 * _DAY_S else f"{_short(seconds / _DAY_S)} d"


def rate(per_month: float) -> str:
    """Return a rate of events per month: ``1 in 12 days``, ``3 per day``, ``2.5 per hour``, ``none``."""
    if not per_month > 0:
        return "none"
    per_day = per_month / _MONTH_DAYS
    if per_day < 1:
        return f"1 in {1 / per_day:.0f} days"
    return f"{_short(per_day)} per day" if per_day < 48 else f"{_short(per_day / 24)} per hour"


def quantity(value: float, unit: str, name: str = "") -> str:
    """Return a value with its unit; `name` tells a multiple of a baseline from a share."""
    if unit == "ratio":
        return multiple(value) if name in _MULTIPLES else percent(value)
    if unit == "s":
        return duration(value) if value >= 2 * _MINUTE_S else f"{_short(value)} s"
    if unit in _FORMATS:
        return _FORMATS[unit](value)
    return f"{value:.3g} {unit}".strip()


def evidence_label(name: str) -> str:
    """Return the display name of one piece of evidence: its name without its unit."""
    suffix = next((one for one in _UNIT_SUFFIXES if name.endswith(one)), "")
    return name.removesuffix(suffix).replace("_", " ")


def evidence_text(item: Evidence) -> str:
    """Return one piece of evidence as a line: ``source resistance 15.1 mΩ``."""
    return f"{evidence_label(item.name)} {quantity(item.value, item.unit, item.name)}"


def shortened(text: str, length: int = SUMMARY_LENGTH) -> str:
    """Return a text of at most `length` characters, cut at a space and marked where it was longer."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head[length // 2 :] else head}…"


def _short(value: float) -> str:
    """Return a number with at most one digit behind the point below 10, none above."""
    if not math.isfinite(value):
        return "unknown"
    return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}".removesuffix(".0")


_FORMATS: dict[str, Callable[[float], str]] = {
    "ohm": ohms,
    "V": volts,
    "W": lambda value: f"{_short(value)} W",
    "A": lambda value: f"{_short(value)} A",
    "K": lambda value: f"{_short(value)} K",
    "°C": lambda value: f"{_short(value)} °C",
    "MHz": lambda value: f"{value:.0f} MHz",
    "rpm": lambda value: f"{value:.0f} rpm",
}
