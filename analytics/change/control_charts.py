"""Control charts over many series: CUSUM, exponentially weighted mean, and Page-Hinkley.

Two-sided CUSUM (Page, "Continuous inspection schemes", Biometrika 41, 1954): how long a value has been off by more than
an allowance. The sums count in sigmas of white noise. On series whose neighbours are correlated the false alarms come
ten times as often and more: take whitened errors (`analytics.change.table`) or means over hours.

Exponentially weighted mean against a frozen mean, for small shifts (Roberts, "Control chart tests based on geometric
moving averages", Technometrics 1(3), 1959); the limits that widen with the first values are those of Lucas and
Saccucci, Technometrics 32(1), 1990.

Page-Hinkley, a change of a mean that is not known beforehand (Hinkley, "Inference about the change-point from
cumulative sum tests", Biometrika 58, 1971): it learns the mean from the series itself, so it takes a change that comes
slowly for the mean: for slow faults use CUSUM against a frozen one.
"""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# The usual design for a shift of one sigma, half of which is the allowance. One-sided, 0.5 and 5 give a false alarm
# every 931 values, 0.5 and 8 every 19,000 (Siegmund's approximation and the Markov chain of Brook and Evans,
# Biometrika 59, 1972, agree); the tests compute both. Two-sided halves it.
ALLOWANCE_SIGMAS = 0.5
# heuristic: one wild value must not do what ten unusual ones do.
MAX_SIGMAS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CusumState:
    """The sums above and below ``(n_series,)``, in sigmas."""

    above: FromZero
    below: FromZero

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


GAIN = 0.1  # Lucas and Saccucci, table 3: 0.05 to 0.25 for shifts of half to one sigma


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EwmaState:
    """The mean of each series in sigmas off its frozen mean ``(n_series,)``, and how many values it holds."""

    off_sigmas: FromZero
    n_values: TimeArray

    def distance(self, *, gain: float = GAIN) -> FloatArray:
        """Return how far each mean lies off, in the standard deviations that white noise would give it; 0 at first."""
        spread = np.sqrt(gain / (2 - gain) * -np.expm1(2 * self.n_values * np.log1p(-gain)))
        return np.where(self.n_values > 0, np.abs(self.off_sigmas) / np.maximum(spread, 1e-300), 0.0)


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


# The defaults of River and CapyMOA for values of unit scale.
PAGE_HINKLEY_ALLOWANCE = 0.005
MIN_VALUES = 30
PAGE_HINKLEY_KEEP = 0.9999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageHinkleyState:
    """Count and mean of the values, and the sums that rise with values above and below the mean, ``(n_series,)``."""

    n_values: TimeArray
    mean: FromZero
    above: FromZero
    below: FromZero


def page_hinkley_step(
    state: PageHinkleyState,
    values: FloatArray,
    *,
    allowance: float = PAGE_HINKLEY_ALLOWANCE,
    keep: float = PAGE_HINKLEY_KEEP,
) -> PageHinkleyState:
    """Add one value per series ``(n_series,)``, in units of its usual spread; a NaN changes nothing.

    The sums are kept above zero, which is the distance from their lowest point in Hinkley's form.
    """
    known = np.isfinite(values)
    n_values = state.n_values + known
    value = np.where(known, values, state.mean)
    mean = state.mean + (value - state.mean) / np.maximum(n_values, 1)
    off = value - mean
    return PageHinkleyState(
        n_values=n_values,
        mean=mean,
        above=np.where(known, np.maximum(keep * state.above + off - allowance, 0.0), state.above),
        below=np.where(known, np.maximum(keep * state.below - off - allowance, 0.0), state.below),
    )
