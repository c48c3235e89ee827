"""How fast temperatures climb, and when they are at a limit.

The slope is the difference of two running means that lag behind by different times.
"""

import math
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# heuristic: time constants: short against a heat sink's (48 s), and so far apart that a sensor's step of 1 K is a slope
# of 0.1 K/s at most.
_NEW_S, _OLD_S = 4.0, 14.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Climb:
    """Two means with exponential memory, each of shape ``(n_entities,)``; NaN before the first value."""

    new_c: FloatArray
    old_c: FloatArray

    @staticmethod
    def unknown(n_entities: int) -> "Climb":
        """Return the state before the first row."""
        nan = np.full(n_entities, np.nan)
        return Climb(new_c=nan, old_c=nan)

    def slope_c_per_s(self) -> FloatArray:
        """Return the slope: a mean lags behind a steady climb by its time constant times the slope."""
        slope: FloatArray = (self.new_c - self.old_c) / (_OLD_S - _NEW_S)
        return slope


def add_row(climb: Climb, temp_c: FloatArray, *, passed_s: float) -> Climb:
    """Add one row; a NaN changes nothing."""
    known = ~np.isnan(temp_c)

    def moved(mean: FloatArray, constant_s: float) -> FloatArray:
        share = -math.expm1(-passed_s / constant_s)
        after: FloatArray = np.where(np.isnan(mean), temp_c, np.where(known, mean + share * (temp_c - mean), mean))
        return after

    return Climb(new_c=moved(climb.new_c, _NEW_S), old_c=moved(climb.old_c, _OLD_S))


def time_to_limit_s(*, temp_c: float, drift_c_per_s: float, limit_c: float, slow_s: float) -> float | None:
    """Return when a GPU that warms by its heat sink's time constant meets a limit; None where it never will.

    It ends at ``T + slow dT/dt`` and nears that exponentially.
    """
    if temp_c >= limit_c:
        return 0.0
    to_go_c = slow_s * drift_c_per_s
    if not to_go_c > limit_c - temp_c:
        return None
    return slow_s * math.log(to_go_c / (to_go_c - (limit_c - temp_c)))
