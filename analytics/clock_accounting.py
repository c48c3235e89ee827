"""Where the clocks went: how long each reason held a GPU below its highest clock, and how much clock that cost.

Two witnesses: the bits of the clock event reasons, polled, and the driver's counters of the same time, which miss
nothing but exist for some reasons and some parts alone. Bits of several reasons at once are given to the gravest of
them, in the order of `Reason`, so that the shares add up to one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analytics.detectors import throttle_reasons
from analytics.detectors.columns import optional
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame, MaskArray, TimeArray

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
# heuristic: a clock within 1 % of the highest is the highest; clocks move in steps of 7.5 or 15 MHz.
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
    looks only now and then. `read_s` is how long each GPU was read, shape ``(n_gpus,)``: one that is lost or was added
    counts only while it answers. `lost_ratio` is the clock that was missing in that time over the highest, averaged
    over the time read; NaN where the highest clock is not known or nothing was read.
    """

    seconds: float
    read_s: FloatArray
    polled_s: FloatArray
    counted_s: FloatArray
    lost_ratio: FloatArray

    def share(self, index: int, reason: Reason) -> float:
        """Return the share of the time read that a reason held one GPU, by the better witness; NaN over no time.

        All shares add up to 1. A GPU that never was read is wholly unknown.
        """
        if not self.seconds > 0:
            return float("nan")
        read_s = float(self.read_s[index])
        if not read_s > 0:
            return float(reason is Reason.UNKNOWN)
        held_s = np.minimum(np.fmax(self.polled_s[index], self.counted_s[index]), read_s)
        # What only the counters saw was polled as something milder: it is taken from that, the mildest first.
        for place in range(len(_ORDER) - 1, -1, -1):
            spare_s = held_s[place] - np.fmax(self.counted_s[index, place], 0.0)
            held_s[place] -= min(max(float(held_s.sum()) - read_s, 0.0), max(float(spare_s), 0.0))
        return float(held_s[_ORDER.index(reason)] / held_s.sum())


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
    # What is not read at all is no time of that GPU: a lost one is not counted on.
    read = ~np.isnan(flags) | ~np.isnan(clock_mhz)
    weights_s = apart_s[:, np.newaxis] * read
    read_s = weights_s.sum(axis=0)
    for place, held in enumerate(_held(flags, ratio)):
        polled_s[:, place] = (held * weights_s).sum(axis=0)
        missing = np.where(np.isnan(ratio), 0.0, np.clip(1.0 - ratio, 0.0, 1.0))
        lost[:, place] = (held * missing * weights_s).sum(axis=0)
    seconds = float(apart_s.sum())
    known: MaskArray = np.any(~np.isnan(ratio), axis=0, keepdims=True).T
    return ClockAccount(
        seconds=seconds,
        read_s=read_s,
        polled_s=polled_s,
        counted_s=_counted(frame),
        lost_ratio=np.where(known, lost / np.where(read_s > 0, read_s, np.nan)[:, np.newaxis], np.nan),
    )


def account_text(account: ClockAccount, index: int) -> str:
    """Return where one GPU's clocks went, the largest share first: "power limit 31 % (6 % of its clock)"."""
    if not account.seconds > 0:
        return "no time to account for"
    read_s = float(account.read_s[index])
    if not read_s > 0:
        return "never read"
    parts = []
    percents = rounded([account.share(index, reason) for reason in _ORDER], 100)
    for reason, percent in zip(_ORDER, percents, strict=True):
        if percent == 0:
            continue
        lost = float(account.lost_ratio[index, _ORDER.index(reason)])
        cost = f" ({lost:.0%} of its clock)" if lost >= 0.005 else ""
        parts.append((percent, f"{reason} {percent}%{cost}"))
    parts.sort(key=lambda part: -part[0])
    whole = "" if read_s >= 0.995 * account.seconds else f", not read for {account.seconds - read_s:.0f} s"
    return f"of {read_s:.0f} s: " + ", ".join(text for _, text in parts) + whole


def rounded(shares: Sequence[float], whole: int) -> tuple[int, ...]:
    """Return shares of one as whole parts of `whole` that add up to it: what was cut off most is rounded up first."""
    exact = [share * whole for share in shares]
    parts = [int(one) for one in exact]
    last = sorted(range(len(exact)), key=lambda place: parts[place] - exact[place])
    for place in last[: whole - sum(parts)]:
        parts[place] += 1
    return tuple(parts)


def _held(flags: FloatArray, ratio: FloatArray) -> list[MaskArray]:
    """Return for each reason of `Reason` where it alone is held responsible, shape ``(n_rows, n_gpus)``."""
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
    behind = _behind_a_hole(frame.time_ns)
    for reason, names in _COUNTERS:
        for name in names:
            if name in frame.spec.signals:
                grown_s = _growth(frame.signal(name), behind)
                place = _ORDER.index(reason)
                counted_s[:, place] = np.fmax(counted_s[:, place], grown_s)
    return counted_s


def _behind_a_hole(time_ns: TimeArray) -> MaskArray:
    """Return the rows that end a hole or soon follow it: there a counter of a slower table first tells of it."""
    ends_ns = time_ns[1:][np.diff(time_ns) > _MAX_GAP_S * NS_PER_S]
    if not ends_ns.size:
        return np.zeros(len(time_ns), dtype=np.bool_)
    last = np.searchsorted(ends_ns, time_ns, side="right") - 1
    behind: MaskArray = (last >= 0) & (time_ns - ends_ns[np.maximum(last, 0)] < _MAX_GAP_S * NS_PER_S)
    return behind


def _growth(counter: FloatArray, left_out: MaskArray) -> FloatArray:
    """Return how far each counter rose, resets and marked rows left out; NaN where it was known less than twice."""
    found = np.full(counter.shape[1], np.nan)
    for index in np.flatnonzero((~np.isnan(counter)).sum(axis=0) >= 2):
        known = ~np.isnan(counter[:, index])
        grown = np.maximum(np.diff(counter[known, index]), 0.0)
        found[index] = grown[~left_out[known][1:]].sum()
    return found
