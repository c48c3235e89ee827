"""Two-sided CUSUM over many series: how long a value has been off by more than an allowance.

Page, "Continuous inspection schemes", Biometrika 41, 1954. The sums count in sigmas of white noise. On series whose
neighbours are correlated the false alarms come ten times as often and more: take whitened errors
(`analytics.change.whitening`) or means over hours.
"""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# The usual design for a shift of one sigma, half of which is the allowance. One-sided, 0.5 and 5 give a false alarm
# every 931 values, 0.5 and 8 every 19,000 (Siegmund's approximation and the Markov chain of Brook and Evans,
# Biometrika 59, 1972, agree); the tests compute both. Two-sided halves it.
ALLOWANCE_SIGMAS = 0.5
LIMIT_SIGMAS = 8.0
# heuristic: one wild value must not do what ten unusual ones do.
MAX_SIGMAS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CusumState:
    """The sums above and below ``(n_series,)``, in sigmas."""

    above: FloatArray
    below: FloatArray

    @staticmethod
    def empty(n_series: int) -> "CusumState":
        """Return the sums of no value."""
        return CusumState(above=np.zeros(n_series), below=np.zeros(n_series))

    def exceeds(self, limit_sigmas: float = LIMIT_SIGMAS) -> MaskArray:
        """Return which series' sums have passed the limit."""
        return (self.above > limit_sigmas) | (self.below > limit_sigmas)

    def cleared(self, series: MaskArray) -> "CusumState":
        """Return the state with the sums of `series` at zero again, as after an alarm."""
        return replace(self, above=np.where(series, 0.0, self.above), below=np.where(series, 0.0, self.below))


def cusum_step(
    state: CusumState,
    values: FloatArray,
    *,
    mean: FloatArray | float,
    sigma: FloatArray | float,
    allowance_sigmas: float = ALLOWANCE_SIGMAS,
) -> CusumState:
    """Add one value per series ``(n_series,)``; a NaN, or a sigma that is not above zero, changes nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        off = (values - mean) / sigma
    known = np.isfinite(off) & (np.asarray(sigma) > 0)
    off = np.clip(np.where(known, off, 0.0), -MAX_SIGMAS, MAX_SIGMAS)
    return CusumState(
        above=np.where(known, np.maximum(state.above + off - allowance_sigmas, 0.0), state.above),
        below=np.where(known, np.maximum(state.below - off - allowance_sigmas, 0.0), state.below),
    )
