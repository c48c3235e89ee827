"""Exponentially weighted mean of many series against a frozen mean, for small shifts.

Roberts, "Control chart tests based on geometric moving averages", Technometrics 1(3), 1959; the limits that widen with
the first values are those of Lucas and Saccucci, Technometrics 32(1), 1990.
"""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray, TimeArray

GAIN = 0.1  # Lucas and Saccucci, table 3: 0.05 to 0.25 for shifts of half to one sigma
# Same paper, gain 0.1: a false alarm every 500 values of white noise; a little sooner, as the limits start narrow.
LIMIT_SIGMAS = 2.814


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EwmaState:
    """The mean of each series in sigmas off its frozen mean ``(n_series,)``, and how many values it holds."""

    off_sigmas: FloatArray
    n_values: TimeArray

    @staticmethod
    def empty(n_series: int) -> "EwmaState":
        """Return the state of no value."""
        return EwmaState(off_sigmas=np.zeros(n_series), n_values=np.zeros(n_series, dtype=np.int64))

    def distance(self, *, gain: float = GAIN) -> FloatArray:
        """Return how far each mean lies off, in the standard deviations that white noise would give it; 0 at first."""
        spread = np.sqrt(gain / (2 - gain) * -np.expm1(2 * self.n_values * np.log1p(-gain)))
        return np.where(self.n_values > 0, np.abs(self.off_sigmas) / np.maximum(spread, 1e-300), 0.0)

    def exceeds(self, limit_sigmas: float = LIMIT_SIGMAS, *, gain: float = GAIN) -> MaskArray:
        """Return which means lie further off than white noise would take them."""
        return np.asarray(self.distance(gain=gain) > limit_sigmas, dtype=np.bool_)


def ewma_step(
    state: EwmaState,
    values: FloatArray,
    *,
    mean: FloatArray | float,
    sigma: FloatArray | float,
    gain: float = GAIN,
) -> EwmaState:
    """Add one value per series ``(n_series,)``; a NaN, or a sigma that is not above zero, changes nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        off = (values - mean) / sigma
    known = np.isfinite(off) & (np.asarray(sigma) > 0)
    return EwmaState(
        off_sigmas=np.where(known, state.off_sigmas + gain * (off - state.off_sigmas), state.off_sigmas),
        n_values=state.n_values + known,
    )
