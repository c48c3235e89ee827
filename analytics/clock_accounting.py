"""Clock accounting: how long each reason held a GPU below its highest clock, and how much clock that cost.

Two sources: the polled bits of the clock event reasons, and the driver's counters of the same time, which miss nothing
but exist for some reasons on some GPUs only. Time with several bits counts for the gravest of them, in the order of
`Reason`, so the shares add up to one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analytics.detectors.columns import optional
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame, MaskArray, TimeArray
from telemetry.gpu import REASON_HW_SLOWDOWN, REASON_HW_THERMAL, REASON_POWER_BRAKE, REASON_POWER_CAP, REASON_SW_THERMAL

# nvmlClocksEventReasons, nvml.h.
_IDLE, _APPLICATION, _SYNC_BOOST, _DISPLAY = 0x001, 0x002, 0x010, 0x100
# Reasons that have detectors of their own.
WITH_OWN_FINDING = REASON_HW_SLOWDOWN | REASON_HW_THERMAL | REASON_SW_THERMAL | REASON_POWER_BRAKE
# Rows further apart than this leave a gap that counts for no reason; as `detectors.condition.GAP_NS`.
_MAX_GAP_S = 5.0
# heuristic: a clock within 1 % of the highest is the highest; clocks move in steps of 7.5 or 15 MHz.
_FULL_RATIO = 0.99


class Reason(StrEnum):
    """Reasons for a clock below its highest, gravest first; then full clock and unknown.

    `OWN_CAP` is set clocks (the bit of `APPLICATION`) on a GPU whose cap railwatch set.
    """

    BRAKE = "power brake"
    HEAT = "heat"
    HARDWARE = "hardware slowdown"
    POWER_CAP = "power limit"
    SYNC_BOOST = "sync boost"
    OWN_CAP = "railwatch clock cap"
    APPLICATION = "clocks that were set"
    IDLE = "nothing to do"
    OTHER = "no reason given"
    FULL = "full clock"
    UNKNOWN = "not seen"


_BITS: tuple[tuple[Reason, int], ...] = (
    (Reason.BRAKE, REASON_POWER_BRAKE),
    (Reason.HEAT, REASON_HW_THERMAL | REASON_SW_THERMAL),
    (Reason.HARDWARE, REASON_HW_SLOWDOWN),
    (Reason.POWER_CAP, REASON_POWER_CAP),
    (Reason.SYNC_BOOST, _SYNC_BOOST),
    (Reason.APPLICATION, _APPLICATION | _DISPLAY),
    (Reason.IDLE, _IDLE),
)
# Counters of the same time. Heat has one each for hardware and software slowdown, or one for both.
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

    `counted_s` is the growth of the driver's counters, NaN without a counter; it may exceed `polled_s`. `read_s` is how
    long each GPU was read, shape ``(n_gpus,)``; a lost or added GPU counts only while it answers. `lost_ratio` is the
    missing clock over the highest clock, averaged over the time read; NaN if the highest clock is unknown or nothing
    was read.
    """

    seconds: float
    read_s: FloatArray
    polled_s: FloatArray
    counted_s: FloatArray
    lost_ratio: FloatArray

    def share(self, index: int, reason: Reason) -> float:
        """Return the share of the time read in which a reason held one GPU, by the better source; NaN without time.

        All shares add up to 1. A GPU that was never read is unknown all the time.
        """
        if not self.seconds > 0:
            return float("nan")
        read_s = float(self.read_s[index])
        if not read_s > 0:
            return float(reason is Reason.UNKNOWN)
        held_s = np.minimum(np.fmax(self.polled_s[index], self.counted_s[index]), read_s)
        # Time that only the counters saw was polled as a milder reason: subtract it there, mildest first.
        for place in range(len(_ORDER) - 1, -1, -1):
            spare_s = held_s[place] - np.fmax(self.counted_s[index, place], 0.0)
            held_s[place] -= min(max(float(held_s.sum()) - read_s, 0.0), max(float(spare_s), 0.0))
        return float(held_s[_ORDER.index(reason)] / held_s.sum())


def clock_account(frame: Frame, *, capped: Collection[str] = ()) -> ClockAccount:
    """Return the clock account of a frame of GPUs; missing signals count as unknown.

    `capped` are the ids of the GPUs whose clock railwatch capped. Each row lasts until the next one, the last row not
    at all. Cost: a few array operations per reason.
    """
    apart_s = np.diff(frame.time_ns) / NS_PER_S
    apart_s = np.where((apart_s > 0) & (apart_s <= _MAX_GAP_S), apart_s, 0.0)
    n_gpus = len(frame.spec.entities)
    shape = (n_gpus, len(_ORDER))
    flags = optional(frame, "throttle_reasons")[:-1]
    clock_mhz, max_mhz = optional(frame, "sm_clock_mhz")[:-1], optional(frame, "max_sm_clock_mhz")[:-1]
    ratio = clock_mhz / np.where(max_mhz > 0, max_mhz, np.nan)
    polled_s, lost = np.zeros(shape), np.zeros(shape)
    # Time without any reading does not count for that GPU, as after a loss.
    read = ~np.isnan(flags) | ~np.isnan(clock_mhz)
    weights_s = apart_s[:, np.newaxis] * read
    read_s = weights_s.sum(axis=0)
    by_railwatch: MaskArray = np.array([entity.id in capped for entity in frame.spec.entities], dtype=np.bool_)
    for place, held in enumerate(_held(flags, ratio, by_railwatch)):
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
    """Return the account of one GPU as text, largest share first: "power limit 31% (6% of its clock)"."""
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
    """Return shares as integers that add up to `whole`; the largest remainders are rounded up."""
    exact = [share * whole for share in shares]
    parts = [int(one) for one in exact]
    last = sorted(range(len(exact)), key=lambda place: parts[place] - exact[place])
    for place in last[: whole - sum(parts)]:
        parts[place] += 1
    return tuple(parts)


def _held(flags: FloatArray, ratio: FloatArray, by_railwatch: MaskArray) -> list[MaskArray]:
    """Return for each reason of `Reason` a mask of the rows that count for it, shape ``(n_rows, n_gpus)``."""
    known = ~np.isnan(flags)
    bits = np.where(known, flags, 0.0).astype(np.int64)
    full = ratio >= _FULL_RATIO
    left = known.copy()
    held = []
    for reason, mask in _BITS:
        # Bits that are set at the highest clock cost nothing; a power brake counts always.
        here = left & ((bits & mask) != 0)
        if reason is not Reason.BRAKE:
            here &= ~full
        if reason is Reason.APPLICATION:
            held.append(here & by_railwatch)
            held.append(here & ~by_railwatch)
        else:
            held.append(here)
        left &= ~here
    other = left & (ratio < _FULL_RATIO)
    return [*held, other, left & ~other, ~known]


def _counted(frame: Frame) -> FloatArray:
    counted_s = np.full((len(frame.spec.entities), len(_ORDER)), np.nan)
    behind = _after_gap(frame.time_ns)
    for reason, names in _COUNTERS:
        for name in names:
            if name in frame.spec.signals:
                grown_s = _growth(frame.signal(name), behind)
                place = _ORDER.index(reason)
                counted_s[:, place] = np.fmax(counted_s[:, place], grown_s)
    return counted_s


def _after_gap(time_ns: TimeArray) -> MaskArray:
    """Return a mask of the rows right after a gap, in which counters of slower tables still show its growth."""
    ends_ns = time_ns[1:][np.diff(time_ns) > _MAX_GAP_S * NS_PER_S]
    if not ends_ns.size:
        return np.zeros(len(time_ns), dtype=np.bool_)
    last = np.searchsorted(ends_ns, time_ns, side="right") - 1
    behind: MaskArray = (last >= 0) & (time_ns - ends_ns[np.maximum(last, 0)] < _MAX_GAP_S * NS_PER_S)
    return behind


def _growth(counter: FloatArray, left_out: MaskArray) -> FloatArray:
    """Return the growth of each counter without resets and marked rows; NaN with fewer than two values."""
    found = np.full(counter.shape[1], np.nan)
    for index in np.flatnonzero((~np.isnan(counter)).sum(axis=0) >= 2):
        known = ~np.isnan(counter[:, index])
        grown = np.maximum(np.diff(counter[known, index]), 0.0)
        found[index] = grown[~left_out[known][1:]].sum()
    return found
