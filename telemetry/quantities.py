"""Quantities as people write them: values with units, durations, rates, and the evidence of findings."""

import math
from collections.abc import Callable

_NAMES_BY_UNIT = {
    "": (
        "best_pcie_generation best_pcie_width brakes code correlation count cusum_sd dips equal_readings feeds gpus "
        "inputs_low inputs_measured nodes nvlink_errors nvlink_repeats of_nodes pci_present pcie_errors "
        "pcie_generation pcie_retrains pcie_width pin pins_open readings_refused sibling_nvlink_errors "
        "sibling_nvlink_repeats sibling_pcie_errors sibling_pcie_retrains siblings siblings_answering signals_lost "
        "signals_watched sources"
    ),
    "A": (
        "current_a current_high_a current_low_a current_spread_a load_a most_loaded_pin_a pin_a rating_a siblings_a "
        "siblings_usual_a step_a usual_a"
    ),
    "K": "excess_c least_margin_c margin_c normal_rise_c rise_c slot_offset_c",
    "K/W": "excess_c_per_w normal_k_per_w theta_k_per_w",
    "K/s": "climb_c_per_s",
    "MHz": "sibling_clock_mhz sm_clock_mhz usual_sm_clock_mhz",
    "V": (
        "baseline_open_circuit_v depth_v drop_v fallen_v input_voltage_v limit_v lowest_v minimum_v "
        "open_circuit_high_v open_circuit_low_v open_circuit_v over_siblings_v path_rise_v predicted_dip_v "
        "recent_minimum_v recovered_minimum_v risen_v usual_drop_v usual_input_v usual_spread_v voltage_spread_v "
        "voltage_v"
    ),
    "W": (
        "chosen_for_w compute_power_w hot_joint_w joint_extra_w load_w mend_w most_w peak_w power_limit_w power_w "
        "rated_w siblings_power_w step_w taken_over_w usual_power_w"
    ),
    "deviations": "distance limit",
    "ohm": (
        "baseline_ohm joint_rise_ohm source_resistance_high_ohm source_resistance_low_ohm source_resistance_ohm "
        "transient_impedance_ohm"
    ),
    "ratio": (
        "alike_ratio bus_margin_ratio bus_share_ratio bus_unexplained_ratio drift_ratio early_ratio efficiency_ratio "
        "fan_power_ratio fan_ratio gpu_util_ratio grows_with_power_ratio hourly_rise_high_ratio hourly_rise_low_ratio "
        "hourly_rise_ratio imbalance_ratio late_ratio limit_ratio mem_util_ratio nominal_ratio normal_fan_ratio "
        "nvlinks_up_ratio off_ratio part_ratio pin_share_ratio power_factor_ratio power_mismatch_ratio "
        "power_spread_ratio rise_low_ratio rise_ratio share_ratio smoothed_theta_ratio steps_share_ratio "
        "swing_before_ratio theta_ratio theta_ratio_hours thread_ratio usual_bus_share_ratio "
        "usual_bus_unexplained_ratio usual_efficiency_ratio usual_gpu_util_ratio usual_mem_util_ratio "
        "usual_pin_share_ratio usual_power_factor_ratio usual_share_ratio"
    ),
    "rpm": "fan_rpm limit_rpm",
    "s": (
        "apart_s brake_s counted_brake_s duration_s itic_s median_step_s polled_brake_s seconds silent_s "
        "since_link_error_s slowed_s spinning_s stalled_s threads_spinning_s time_to_limit_s window_s"
    ),
    "°C": (
        "gpu_temp_c hbm_temp_c highest_inlet_c inlet_temp_c sibling_median_c slowdown_temp_c usual_gpu_temp_c "
        "usual_hbm_temp_c"
    ),
    "°C or K": "limit_c",
}

# Name to unit of the numbers that detectors add to findings; the unit is empty for a count, a code or a pure number.
# Conditions of policies read them as `incident.numbers.NAME`, and `railwatch rules check` refuses other names. A test
# keeps the list in step with the detectors.
EVIDENCE: dict[str, str] = {name: unit for unit, names in _NAMES_BY_UNIT.items() for name in names.split()}
# Evidence by its earlier name, which policies may still use for one release.
EARLIER_EVIDENCE = {"chosen_for_w": "rated_w"}


# heuristic: what fits in one line of a terminal, a pager message and a table row.
SUMMARY_LENGTH = 100
# Ratios of a baseline, of siblings or of a limit ("2.9x"); every other ratio is a share ("97 %").
_MULTIPLES = frozenset(
    {
        "hourly_rise_high_ratio",
        "hourly_rise_low_ratio",
        "hourly_rise_ratio",
        "limit_ratio",
        "rise_low_ratio",
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


def percent(ratio: float, *, digits: int = 0) -> str:
    """Return a share of 0 to 1: ``97 %``, ``33.4 %`` with one digit."""
    return f"{ratio * 100:.{digits}f} %"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit: ``under 0.1 s``, ``12 s``, ``3.5 min``, ``2 h``, ``2.5 d``."""
    if seconds < 0.1:
        return "under 0.1 s"
    for limit, size, unit in ((10.0, 1.0, "s"), (2 * _MINUTE_S, 1.0, "s"), (2 * _HOUR_S, _MINUTE_S, "min")):
        if seconds < limit:
            return f"{_short(seconds / size)} {unit}"
    return f"{_short(seconds / _HOUR_S)} h" if seconds < 2 * _DAY_S else f"{_short(seconds / _DAY_S)} d"


def elapsed(seconds: float) -> str:
    """Return a measured time in its two largest units: ``45 s``, ``7 min 7 s``, ``3 h 5 min``, ``2 d 4 h``."""
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min"), (1.0, "s")):
        count, left = divmod(left, int(size))
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "0 s"


def rate(per_month: float) -> str:
    """Return a rate of events per month: ``1 in 12 days``, ``3 per day``, ``2.5 per hour``, ``none``."""
    if not per_month > 0:
        return "none"
    per_day = per_month / _MONTH_DAYS
    if per_day < 1:
        return f"1 in {1 / per_day:.0f} days"
    return f"{_short(per_day)} per day" if per_day < 48 else f"{_short(per_day / 24)} per hour"


def quantity(value: float, unit: str, name: str = "") -> str:
    """Return a value with its unit; `name` distinguishes a multiple of a baseline from a share."""
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
