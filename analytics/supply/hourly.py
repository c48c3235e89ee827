"""Median resistance of each hour with its standard error, from at most one window a minute."""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, TimeArray

HOUR_NS = 3600 * NS_PER_S
_MINUTE_NS = 60 * NS_PER_S
_MINUTES = 60
# Variance of a median over that of a mean, for normal noise: pi / 2 (Kendall and Stuart, volume 1, section 14.12).
_MEDIAN_VARIANCE = np.pi / 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hour:
    """Windows of the running hour; `number` is hours since 1970, None before the first.

    `variance` sums the variances of the windows, as shares squared.
    """

    number: int | None
    kept_ohm: FloatArray
    kept_ns: TimeArray
    variance: FloatArray

    @staticmethod
    def none(n_paths: int) -> "Hour":
        """Return the state before the first window."""
        return Hour(
            number=None,
            kept_ohm=np.full((n_paths, _MINUTES), np.nan),
            kept_ns=np.zeros(n_paths, dtype=np.int64),
            variance=np.zeros(n_paths),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hourly:
    """Result of one or more hours, shape ``(n_paths,)``, NaN where not identified; `hours` have passed.

    `sd_ratio` is the standard error as a share of the resistance.
    """

    resistance_ohm: FloatArray
    sd_ratio: FloatArray
    hours: int


def take(
    hour: Hour, resistance_ohm: FloatArray, sd_ohm: FloatArray, now_ns: int, *, block_s: float
) -> tuple[Hour, Hourly | None]:
    """Add the windows of a block of `block_s`; return the result of ended hours, None while one runs.

    A block that lasts an hour and more is its own hour, so that a slow sensor is not evaluated a block late.
    """
    hour, ended = turn(hour, now_ns)
    if block_s * NS_PER_S < HOUR_NS:
        return keep(hour, resistance_ohm, sd_ohm, now_ns), ended
    sd_ratio = sd_ohm / resistance_ohm
    return hour, Hourly(resistance_ohm=resistance_ohm, sd_ratio=sd_ratio, hours=1 if ended is None else ended.hours)


def keep(hour: Hour, resistance_ohm: FloatArray, sd_ohm: FloatArray, now_ns: int) -> Hour:
    """Keep the identified values, one a minute."""
    seen: MaskArray = np.isfinite(resistance_ohm) & (np.abs(now_ns - hour.kept_ns) >= _MINUTE_NS)
    if not seen.any():
        return hour
    rows = np.flatnonzero(seen)
    kept_ohm, variance = hour.kept_ohm.copy(), hour.variance.copy()
    kept_ohm[rows, (now_ns // _MINUTE_NS) % _MINUTES] = resistance_ohm[rows]
    variance[rows] += (sd_ohm[rows] / resistance_ohm[rows]) ** 2
    return replace(hour, kept_ohm=kept_ohm, kept_ns=np.where(seen, now_ns, hour.kept_ns), variance=variance)


def turn(hour: Hour, now_ns: int) -> tuple[Hour, Hourly | None]:
    """Return the result of the hours that ended, None while one runs.

    A clock that was set back ends nothing: the hour that runs takes the number that the clock shows.
    """
    number = now_ns // HOUR_NS
    if hour.number is None or number < hour.number:
        return replace(hour, number=number), None
    if number == hour.number:
        return hour, None
    count = np.isfinite(hour.kept_ohm).sum(axis=1)
    medians = np.full(len(hour.kept_ohm), np.nan)
    rows = np.flatnonzero(count)
    if rows.size:
        medians[rows] = np.nanmedian(hour.kept_ohm[rows], axis=1)
    # Mean variance of a window over their number; one window is its own median.
    known = np.maximum(count, 1.0)
    variance = hour.variance / known**2 * np.where(count > 1, _MEDIAN_VARIANCE, 1.0)
    after = replace(
        hour, number=number, kept_ohm=np.full_like(hour.kept_ohm, np.nan), variance=np.zeros_like(hour.variance)
    )
    return after, Hourly(resistance_ohm=medians, sd_ratio=np.sqrt(variance), hours=number - hour.number)
