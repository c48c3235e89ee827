"""Page-Hinkley over many series: a change of a mean that is not known beforehand.

Hinkley, "Inference about the change-point from cumulative sum tests", Biometrika 58, 1971. Unlike CUSUM it learns the
mean from the series itself, so it takes a change that comes slowly for the mean: for slow faults use CUSUM against a
frozen one.
"""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray, TimeArray

# The defaults of River and CapyMOA for values of unit scale.
ALLOWANCE = 0.005
LIMIT = 50.0
MIN_VALUES = 30
KEEP = 0.9999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageHinkleyState:
    """Count and mean of the values, and the sums that rise with values above and below the mean, ``(n_series,)``."""

    n_values: TimeArray
    mean: FloatArray
    above: FloatArray
    below: FloatArray

    @staticmethod
    def empty(n_series: int) -> "PageHinkleyState":
        """Return the state of no value."""
        zero = np.zeros(n_series)
        return PageHinkleyState(n_values=np.zeros(n_series, dtype=np.int64), mean=zero, above=zero, below=zero)

    def exceeds(self, limit: float = LIMIT) -> MaskArray:
        """Return which series' sums have passed the limit, after enough values."""
        return np.asarray((self.n_values >= MIN_VALUES) & (np.maximum(self.above, self.below) > limit), dtype=np.bool_)


def page_hinkley_step(
    state: PageHinkleyState, values: FloatArray, *, allowance: float = ALLOWANCE, keep: float = KEEP
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
