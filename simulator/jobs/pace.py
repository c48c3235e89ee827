"""Pace of work at a clock, in whole numbers, so that splitting time changes no bit."""

import numpy as np

from simulator.plant.state import CountArray
from telemetry.frames import FloatArray

US_PER_MS = 1000
FULL_PACE = 1_000_000  # units of work done in a microsecond at the highest clock
_LOWEST_RATIO = 0.01  # below any clock a part can run at; a lost GPU may show 0


def pace(clock_ratio: FloatArray, clock_bound_share: float) -> CountArray:
    """Return the work done per microsecond, in units of which `FULL_PACE` are done at the highest clock."""
    whole: CountArray = np.rint(FULL_PACE / duration_ratio(clock_ratio, clock_bound_share)).astype(np.int64)
    return whole


def duration_ratio(clock_ratio: FloatArray, clock_bound_share: float) -> FloatArray:
    """Return how much longer work takes than at the highest clock.

    ``T(f) / T(f_max) = share f_max / f + 1 - share``: the rest of the work waits for memory, whose clock stays.
    """
    ratio: FloatArray = clock_bound_share / np.maximum(clock_ratio, _LOWEST_RATIO) + (1.0 - clock_bound_share)
    return ratio


def rows(from_us: int, until_us: int) -> slice:
    """Return the milliseconds that begin in a stretch of microseconds."""
    return slice(-(-from_us // US_PER_MS), -(-until_us // US_PER_MS))


def whole_us(length_s: float) -> int:
    """Return a duration in microseconds, at least one, so that time moves on."""
    return max(1, round(length_s * 1e6))
