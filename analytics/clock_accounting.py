"""Where the clocks went: how long each reason held a GPU below its highest clock, and how much clock that cost.

Two witnesses: the bits of the clock event reasons, polled, and the driver's counters of the same time, which miss
nothing but exist for some reasons and some parts alone. Bits of several reasons at once are given to the gravest of
them, in the order of `Reason`, so that the shares add up to one.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analytics.detectors import throttle_reasons
from analytics.detectors.columns import optional
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame, MaskArray

# nvmlClocksEventReasons, nvml.h.
_IDLE, _APPLICATION, _SYNC_BOOST, _DISPLAY = 0x001, 0x002, 0x010, 0x100
# What findings of their own tell of.
WITH_OWN_FINDING = (
    throttle_reasons.HW_SLOWDOWN
    | throttle_reasons.HW_THERMAL
    | throttle_reasons.SW_THERMAL
    | throttle_reasons.HW_POWER_BRAKE
)
# Rows further apart than this leave a hole that is given to no reason; as `detectors.condition.GAP_NS`.
_MAX_GAP_S = 5.0
# own choice: a clock within 1 % of the highest is the highest; clocks move in steps of 7.5 or 15 MHz.
_FULL_RATIO = 0.99


class Reason(StrEnum):
    """What holds a clock down, the gravest first; last that nothing does, and that nobody knows."""

    BRAKE = "power brake"
    HEAT = "heat"
    HARDWARE = "hardware slowdown"
    POWER_CAP = "power limit"
    SYNC_BOOST = "sync boost"
    APPLICATION = "clocks that were set"
    IDLE = "nothing to do"
    OTHER = "no reason given"
    FULL = "full clock"
    UNKNOWN = "not seen"


_BITS: tuple[tuple[Reason, int], ...] = (
    (Reason.BRAKE, throttle_reasons.HW_POWER_BRAKE),
    (Reason.HEAT, throttle_reasons.HW_THERMAL | throttle_reasons.SW_THERMAL),
    (Reason.HARDWARE, throttle_reasons.HW_SLOWDOWN),
    (Reason.POWER_CAP, throttle_reasons.SW_POWER_CAP),
    (Reason.SYNC_BOOST, _SYNC_BOOST),
    (Reason.APPLICATION, _APPLICATION | _DISPLAY),
    (Reason.IDLE, _IDLE),
)
# The counters of the same time. Heat has one for what the hardware and one for what the software does, or one for both.
_COUNTERS: tuple[tuple[Reason, tuple[str, ...]], ...] = (
    (Reason.BRAKE, ("power_brake_s",)),
    (Reason.HEAT, ("thermal_violation_s", "hw_thermal_s", "sw_thermal_s")),
    (Reason.POWER_CAP, ("power_violation_s",)),
    (Reason.SYNC_BOOST, ("sync_boost_s",)),
)
_ORDER = tuple(Reason)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClockAccount:
    """Seconds by reason and what they cost, shape ``(n_gpus, n_reasons)`` in the order of `Reason`.

    `counted_s` is what the driver's counters grew by, NaN where there is no counter: it may exceed `polled_s`, which
    looks only now and then. `lost_ratio` is the clock that was missing in that time over the highest, averaged over the
    whole time; NaN where the highest clock is not known.
    """

    seconds: float
    polled_s: FloatArray
    counted_s: FloatArray
    lost_ratio: FloatArray

    def share(self, index: int, reason: Reason) -> float:
        """Give the share of time that a reason held one GPU, by the better witness; NaN over no time."""
        place = _ORDER.index(reason)
        best_s = float(np.fmax(self.polled_s[index, place], self.counted_s[index, place]))
        return min(best_s / self.seconds, 1.0) if self.seconds > 0 else float("nan")


def clock_account(frame: Frame) -> ClockAccount:
    """Account for the time of a frame of GPUs; what it needs and does not have becomes unknown.

    Each row stands until the next one, the last for none. Cost: a few array operations a reason.
    """
    apart_s = np.diff(frame.time_ns) / NS_PER_S
    apart_s = np.where((apart_s > 0) & (apart_s <= _MAX_GAP_S), apart_s, 0.0)
    n_gpus = len(frame.spec.entities)
    shape = (n_gpus, len(_ORDER))
    flags = optional(frame, "throttle_reasons")[:-1]
    clock_mhz, max_mhz = optional(frame, "sm_clock_mhz")[:-1], optional(frame, "max_sm_clock_mhz")[:-1]
    ratio = clock_mhz / np.where(max_mhz > 0, max_mhz, np.nan)
    polled_s, lost = np.zeros(shape), np.zeros(shape)
    weights_s = apart_s[:, np.newaxis]
    for place, held in enumerate(_held(flags, ratio)):
        polled_s[:, place] = (held * weights_s).sum(axis=0)
        missing = np.where(np.isnan(ratio), 0.0, np.clip(1.0 - ratio, 0.0, 1.0))
        lost[:, place] = (held * missing * weights_s).sum(axis=0)
    seconds = float(apart_s.sum())
    known: MaskArray = np.any(~np.isnan(ratio), axis=0, keepdims=True).T
    return ClockAccount(
        seconds=seconds,
        polled_s=polled_s,
        counted_s=_counted(frame),
        lost_ratio=np.where(known, lost / seconds if seconds > 0 else np.nan, np.nan),
    )


def in_words(account: ClockAccount, index: int) -> str:
    """Say where one GPU's clocks went, the largest share first: "power limit 31 % (6 % of its clock)"."""
    if not account.seconds > 0:
        return "no time to account for"
    parts = []
    for reason in _ORDER:
        share = account.share(index, reason)
        if share < 0.005:  # rounds to nothing on a screen
            continue
        lost = float(account.lost_ratio[index, _ORDER.index(reason)])
        cost = f" ({lost:.0%} of its clock)" if lost >= 0.005 else ""
        parts.append((share, f"{reason} {share:.0%}{cost}"))
    parts.sort(key=lambda part: -part[0])
    return f"of {account.seconds:.0f} s: " + ", ".join(text for _, text in parts)


def _held(flags: FloatArray, ratio: FloatArray) -> list[MaskArray]:
    """Give for each reason of `Reason` where it alone is held responsible, shape ``(n_rows, n_gpus)``."""
    known = ~np.isnan(flags)
    bits = np.where(known, flags, 0.0).astype(np.int64)
    full = ratio >= _FULL_RATIO
    left = known.copy()
    held = []
    for reason, mask in _BITS:
        # Bits that stand while the clock is at its highest hold nothing down, but for a brake, which is never silent.
        here = left & ((bits & mask) != 0)
        if reason is not Reason.BRAKE:
            here &= ~full
        held.append(here)
        left &= ~here
    other = left & (ratio < _FULL_RATIO)
    return [*held, other, left & ~other, ~known]


def _counted(frame: Frame) -> FloatArray:
    counted_s = np.full((len(frame.spec.entities), len(_ORDER)), np.nan)
    for reason, names in _COUNTERS:
        for name in names:
            if name in frame.spec.signals:
                grown_s = _growth(frame.signal(name))
                place = _ORDER.index(reason)
                counted_s[:, place] = np.fmax(counted_s[:, place], grown_s)
    return counted_s


def _growth(counter: FloatArray) -> FloatArray:
    """Give how far each counter rose, resets left out; NaN where it was known less than twice."""
    found = np.full(counter.shape[1], np.nan)
    for index in np.flatnonzero((~np.isnan(counter)).sum(axis=0) >= 2):
        known = counter[~np.isnan(counter[:, index]), index]
        found[index] = np.maximum(np.diff(known), 0.0).sum()
    return found
