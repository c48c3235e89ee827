"""The median resistance of each hour, from one window a minute at most."""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, TimeArray

HOUR_NS = 3600 * NS_PER_S
_MINUTE_NS = 60 * NS_PER_S
_MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hour:
    """The windows of the hour that runs; `number` is hours since 1970, None before the first."""

    number: int | None
    kept_ohm: FloatArray
    kept_ns: TimeArray

    @staticmethod
    def none(n_paths: int) -> "Hour":
        """Give what holds before the first window."""
        return Hour(
            number=None,
            kept_ohm=np.full((n_paths, _MINUTES), np.nan),
            kept_ns=np.zeros(n_paths, dtype=np.int64),
        )


def keep(hour: Hour, resistance_ohm: FloatArray, now_ns: int) -> Hour:
    """Keep what was identified, one value a minute."""
    seen: MaskArray = np.isfinite(resistance_ohm) & (np.abs(now_ns - hour.kept_ns) >= _MINUTE_NS)
    if not seen.any():
        return hour
    rows = np.flatnonzero(seen)
    kept_ohm = hour.kept_ohm.copy()
    kept_ohm[rows, (now_ns // _MINUTE_NS) % _MINUTES] = resistance_ohm[rows]
    return replace(hour, kept_ohm=kept_ohm, kept_ns=np.where(seen, now_ns, hour.kept_ns))


def turn(hour: Hour, now_ns: int) -> tuple[Hour, FloatArray | None, int]:
    """Give the medians of the hour that ended, None while it runs, and how many hours have passed.

    A clock that was set back ends nothing: the hour that runs takes the number that the clock shows.
    """
    number = now_ns // HOUR_NS
    if hour.number is None or number < hour.number:
        return replace(hour, number=number), None, 0
    if number == hour.number:
        return hour, None, 0
    medians = np.full(len(hour.kept_ohm), np.nan)
    rows = np.flatnonzero(np.isfinite(hour.kept_ohm).any(axis=1))
    if rows.size:
        medians[rows] = np.nanmedian(hour.kept_ohm[rows], axis=1)
    after = replace(hour, number=number, kept_ohm=np.full_like(hour.kept_ohm, np.nan))
    return after, medians, number - hour.number
