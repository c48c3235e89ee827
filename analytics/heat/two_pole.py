"""How a GPU warms: two time constants, fitted to a stretch of temperature and power, and the time to a limit.

A die on its interface follows its power within seconds, the heat sink under it within a minute:
``T = T_in + a1 f1(P) + a2 f2(P)``, each `f` a first-order lag. For given time constants that is linear in the two
resistances, so these are solved for and only the time constants are searched (variable projection, Golub and Pereyra,
SIAM J. Numer. Anal. 10(2), 1973).
"""

import math
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# Time constants that are tried. A V100's are about 1.4 s and 48 s (25 J/K on 0.055 K/W, 800 J/K on 0.06 K/W; both
# assumptions); liquid is faster, a heavy sink in little air slower.
_FAST_S = np.geomspace(0.5, 8.0, 9)
_SLOW_S = np.geomspace(12.0, 240.0, 14)
MIN_ROWS = 30
# The load must have moved by this much (standard deviation over mean) to show how heat follows it. Own choice.
MIN_SPREAD_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPole:
    """Resistances and time constants of die and heat sink; `residual_c` is the scatter about the fit."""

    fast_k_per_w: float
    slow_k_per_w: float
    fast_s: float
    slow_s: float
    residual_c: float

    @property
    def k_per_w(self) -> float:
        """Give the whole resistance from die to inlet air."""
        return self.fast_k_per_w + self.slow_k_per_w


def fit_two_pole(time_s: FloatArray, *, temp_c: FloatArray, power_w: FloatArray, air_c: FloatArray) -> TwoPole | None:
    """Fit one GPU's stretch, all arrays of shape ``(n_times,)``; None where it does not tell.

    Rows with a NaN are left out. The stretch needs a load that changed and lasts some time constants.
    """
    known = np.isfinite(temp_c + power_w + air_c)
    time_s, rise_c, power_w = time_s[known], (temp_c - air_c)[known], power_w[known]
    if len(time_s) < MIN_ROWS or np.std(power_w) < MIN_SPREAD_RATIO * np.mean(power_w):
        return None
    best: TwoPole | None = None
    for slow_s in _SLOW_S.tolist():
        slow_w = lagged(time_s, power_w, slow_s)
        # What the sink held at the start is not known: a term that dies away with its time constant takes it up.
        start = np.exp(-(time_s - time_s[0]) / slow_s)
        for fast_s in _FAST_S.tolist():
            matrix = np.stack([lagged(time_s, power_w, fast_s), slow_w, start], axis=1)
            solved, *_ = np.linalg.lstsq(matrix, rise_c, rcond=None)
            residual_c = float(np.std(rise_c - matrix @ solved))
            fast, slow = float(solved[0]), float(solved[1])
            if min(fast, slow) > 0 and (best is None or residual_c < best.residual_c):
                best = TwoPole(
                    fast_k_per_w=fast, slow_k_per_w=slow, fast_s=fast_s, slow_s=slow_s, residual_c=residual_c
                )
    return best


def lagged(time_s: FloatArray, values: FloatArray, constant_s: float) -> FloatArray:
    """Give a first-order lag of values that hold from row to row, starting in balance."""
    out = np.empty_like(values)
    level = out[0] = values[0]
    shares = -np.expm1(-np.diff(time_s) / constant_s)
    for row, share in enumerate(shares.tolist(), start=1):
        level += share * (values[row - 1] - level)
        out[row] = level
    return out


def time_to_limit_s(*, temp_c: float, drift_c_per_s: float, limit_c: float, slow_s: float) -> float | None:
    """Give when a GPU that warms by its heat sink's time constant meets a limit; None where it never will.

    It ends at ``T + slow dT/dt`` and nears that exponentially.
    """
    if temp_c >= limit_c:
        return 0.0
    to_go_c = slow_s * drift_c_per_s
    if not to_go_c > limit_c - temp_c:
        return None
    return slow_s * math.log(to_go_c / (to_go_c - (limit_c - temp_c)))
