"""Summaries and evidence of the `connector_pins` detector: which pin, how much, against what."""

from dataclasses import dataclass

import numpy as np

from analytics.detectors.pin_limits import ConnectorPinsLimits
from analytics.detectors.statements import Statement, evidence
from analytics.pins.comparison import PinComparison
from analytics.pins.levels import FULL
from analytics.pins.quiet import QuietTime
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.frames import FloatArray, MaskArray
from telemetry.quantities import duration, percent
from telemetry.records import FindingStatus, Severity

# 12VHPWR cables fit the same header and have the same contacts.
CONNECTOR = "12V-2x6"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PinScene:
    """What a block showed: mean volts and amperes ``(n_gpus, 12)``, open pins ``(n_gpus, 6)``, and the comparison.

    `levels` are the levels of load that it had, ``(n_gpus, 2)``.
    """

    means: FloatArray
    opened: MaskArray
    levels: MaskArray
    compared: PinComparison
    quiet: QuietTime

    @property
    def current_a(self) -> FloatArray:
        """Mean current of each pin, ``(n_gpus, 6)``."""
        return self.means[:, PIN_COUNT:]

    @property
    def total_a(self) -> FloatArray:
        """Current of each connector, ``(n_gpus,)``; NaN where nothing was read."""
        total_a: FloatArray = self.current_a.sum(axis=1)
        return total_a

    @property
    def most_a(self) -> FloatArray:
        """Current of the most loaded pin, ``(n_gpus,)``; NaN where nothing was read."""
        most_a: FloatArray = self.current_a.max(axis=1)
        return most_a

    @property
    def worst_now(self) -> FloatArray:
        """Largest distance from the fingerprint at the load of the block, 1 at the limit; -inf where none is known."""
        return self.compared.worst(self.levels)

    def unequal_now(self, limits: ConnectorPinsLimits) -> MaskArray:
        """Return a mask of connectors whose pins are unequal at the full load of the block."""
        unequal: MaskArray = self.levels[:, FULL] & (self.compared.least_over_most < limits.unequal_ratio)
        return unequal


def describe_contact(
    scene: PinScene, limits: ConnectorPinsLimits, label: str, gpu: int, status: FindingStatus, *, now_ns: int
) -> Statement:
    """Return severity, summary and evidence of a contact that is open, ages, or is unlike the others."""
    del now_ns
    name, total_a = f"{label} {CONNECTOR}", float(scene.total_a[gpu])
    if status is FindingStatus.CLEARED:
        return Statement(
            severity=Severity.WARNING,
            score=0.0,
            summary=f"{name} pins share the current as usual again at {total_a:.1f} A",
            evidence=evidence(("load_a", total_a, "A")),
        )
    if scene.opened[gpu].any():
        return _opened(scene, name, gpu)
    if scene.compared.worst()[gpu] > 1.0:
        return _aged(scene.compared, limits, name, gpu)
    return _unequal(scene.compared, limits, name, gpu)


def _opened(scene: PinScene, name: str, gpu: int) -> Statement:
    pins, current_a = np.flatnonzero(scene.opened[gpu]), scene.current_a[gpu]
    numbers = ", ".join(str(pin + 1) for pin in pins)
    total_a, most_a = float(scene.total_a[gpu]), float(scene.most_a[gpu])
    which = f"pin {numbers} open" if len(pins) == 1 else f"pins {numbers} open"
    return Statement(
        severity=Severity.CRITICAL,
        score=1.0,
        summary=f"{name} {which}: {current_a[pins].max():.1f} of {total_a:.1f} A, others up to {most_a:.1f} A",
        evidence=evidence(
            ("pin", float(pins[0] + 1), ""),
            ("pins_open", float(len(pins)), ""),
            ("pin_a", float(current_a[pins[0]]), "A"),
            ("load_a", total_a, "A"),
            ("most_loaded_pin_a", most_a, "A"),
        ),
    )


def _aged(compared: PinComparison, limits: ConnectorPinsLimits, name: str, gpu: int) -> Statement:
    level, pin = compared.place_of_worst(gpu)
    share_ratio, fall_v = float(compared.share_ratio[gpu, level, pin]), float(compared.fall_v[gpu, level, pin])
    mean_a, share = float(compared.mean_a[gpu, level, pin]), float(compared.shares[gpu, level, pin])
    share_limit = limits.full_share_ratio if level == FULL else limits.light_share_ratio
    rise_ohm = fall_v / mean_a
    if abs(share_ratio - 1.0) > share_limit:
        more = share_ratio > 1.0
        what = f"carries {percent(share_ratio)} of its usual share, {mean_a:.1f} A"
        why = "contacts beside it suspected" if more else "ageing contact suspected"
    else:
        what = f"is {1000.0 * fall_v:.0f} mV lower than usual at {mean_a:.1f} A (+{1000.0 * rise_ohm:.1f} mΩ)"
        why = "ageing contact suspected"
    return Statement(
        severity=Severity.WARNING,
        score=float(1.0 - 0.5 / max(compared.excess[gpu, level, pin], 1.0)),
        summary=f"{name} pin {pin + 1} {what}: {why}",
        evidence=evidence(
            ("pin", float(pin + 1), ""),
            ("share_ratio", share_ratio, "ratio"),
            ("pin_share_ratio", share, "ratio"),
            ("usual_pin_share_ratio", share / share_ratio, "ratio"),
            ("pin_a", mean_a, "A"),
            ("load_a", float(compared.mean_a[gpu, level].sum()), "A"),
            ("fallen_v", fall_v, "V"),
            ("joint_rise_ohm", rise_ohm if fall_v > limits.clear_ratio * limits.fall_v else float("nan"), "ohm"),
        ),
    )


def _unequal(compared: PinComparison, limits: ConnectorPinsLimits, name: str, gpu: int) -> Statement:
    current_a = compared.mean_a[gpu, FULL]
    least, most = int(current_a.argmin()), int(current_a.argmax())
    ratio = float(compared.least_over_most[gpu])
    least_text, most_text = (f"pin {pin + 1} {current_a[pin]:.1f} A" for pin in (least, most))
    return Statement(
        severity=Severity.WARNING,
        score=float(np.clip(1.0 - ratio / limits.unequal_ratio, 0.1, 1.0)),
        summary=f"{name} pins unequal: {least_text}, {most_text}",
        evidence=evidence(
            ("pin", float(least + 1), ""),
            ("imbalance_ratio", ratio, "ratio"),
            ("pin_a", float(current_a[least]), "A"),
            ("most_loaded_pin_a", float(current_a[most]), "A"),
            ("load_a", float(current_a.sum()), "A"),
        ),
    )


def describe_rating(
    scene: PinScene, limits: ConnectorPinsLimits, label: str, gpu: int, status: FindingStatus, *, now_ns: int
) -> Statement:
    """Return severity, summary and evidence of the most loaded pin against what a pin may carry."""
    del now_ns
    current_a, volts = scene.current_a[gpu], scene.means[gpu, :PIN_COUNT]
    pin, most_a = int(current_a.argmax()), float(scene.most_a[gpu])
    over = most_a / limits.limit_a
    # The shares stay as they are where the whole card draws less.
    mend_w = float((current_a * volts).sum()) * max(1.0 - 1.0 / over, 0.0)
    what = f"{label} {CONNECTOR} pin {pin + 1} at {most_a:.1f} of {limits.limit_a:g} A"
    cleared = status is FindingStatus.CLEARED
    return Statement(
        severity=Severity.CRITICAL if most_a > limits.critical_a else Severity.WARNING,
        score=max(1.0 - 1.0 / over, 0.1),
        summary=f"{what}, within its rating again" if cleared else f"{what}; {mend_w:.0f} W less mends it",
        evidence=evidence(
            ("pin", float(pin + 1), ""),
            ("load_a", most_a, "A"),
            ("rating_a", limits.limit_a, "A"),
            ("limit_ratio", over, "ratio"),
            ("mend_w", mend_w, "W"),
        ),
    )


def describe_meter(
    scene: PinScene, limits: ConnectorPinsLimits, label: str, gpu: int, status: FindingStatus, *, now_ns: int
) -> Statement:
    """Return severity, summary and evidence of a monitor that shows zeros or repeats its readings."""
    del limits
    quiet = scene.quiet
    name, total_a = f"{label} {CONNECTOR} pins", float(quiet.last[gpu, PIN_COUNT:].sum())
    empty_s, quiet_s = float(quiet.empty_s(now_ns)[gpu]), float(quiet.quiet_s(now_ns)[gpu])
    if status is FindingStatus.CLEARED:
        text, lasted_s = f"{name} are read again: {total_a:.1f} A", 0.0
    elif empty_s > 0.0:
        text, lasted_s = f"{name} all read 0 A for {duration(empty_s)}: no reading", empty_s
    else:
        text, lasted_s = f"{name} repeat {total_a:.1f} A exactly for {duration(quiet_s)}: stuck", quiet_s
    return Statement(
        severity=Severity.WARNING,
        score=0.5,
        summary=text,
        evidence=evidence(
            ("load_a", total_a, "A"), ("duration_s", lasted_s, "s"), ("readings_refused", float(quiet.refused[gpu]), "")
        ),
    )
