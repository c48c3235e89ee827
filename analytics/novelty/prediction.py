"""Columns scaled to their usual value and spread, each predicted from its own last values.

The error of a prediction counts in units of its usual error.
"""

from dataclasses import dataclass

import numpy as np

from physics.constants import MAD_TO_SD
from telemetry.frames import FloatArray

# heuristic: one value of a hundred spreads must not decide over all columns together; 20 and 40 score alike on SMD, ASD
# and NAB, 5 and 10 lose.
MAX_SPREADS = 20.0
MIN_LEVEL_RATIO = 0.001  # heuristic: sensors of ten bits resolve a thousandth of their level
SMALLEST = 1e-9  # a column of zeros; any value then counts as `MAX_SPREADS`
MIN_RANGE_RATIO = 0.001  # heuristic, as above
# heuristic: of the healthy range, for the distance of rows: a column that rests but for rare peaks has a tiny
# deviation, and each further peak would count as much as a fault. 0.1 gains on SMD and changes nothing on ASD and NAB.
MIN_PEAK_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """Usual value and usual spread of each column, ``(n_columns,)`` each."""

    centre: FloatArray
    spread: FloatArray

    def apply(self, rows: FloatArray) -> FloatArray:
        """Return rows ``(n_rows, n_columns)`` in spreads off the centre, within `MAX_SPREADS`; NaN stays NaN."""
        with np.errstate(over="ignore"):  # what is beyond all numbers is beyond the bound as well
            return np.clip((rows - self.centre) / self.spread, -MAX_SPREADS, MAX_SPREADS)


def fit_scaling(healthy: FloatArray) -> Scaling:
    """Learn mean and standard deviation of each column of rows without gaps."""
    centre = healthy.mean(axis=0)
    spread = np.maximum(healthy.std(axis=0), MIN_PEAK_RATIO * np.ptp(healthy, axis=0))
    return Scaling(centre=centre, spread=np.maximum(spread, _finest(healthy, centre)))


def fit_level(healthy: FloatArray) -> Scaling:
    """Learn median and spread about it of each column of rows without gaps; outliers hardly move either."""
    centre = np.median(healthy, axis=0)
    middle = MAD_TO_SD * np.median(np.abs(healthy - centre), axis=0)
    spread = np.maximum(middle, MIN_DEVIATION_RATIO * healthy.std(axis=0))
    return Scaling(centre=centre, spread=np.maximum(spread, _finest(healthy, centre)))


def _finest(healthy: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the smallest credible spread of each column."""
    reach = np.maximum(np.abs(centre) * MIN_LEVEL_RATIO, np.ptp(healthy, axis=0) * MIN_RANGE_RATIO)
    return np.asarray(np.maximum(reach, SMALLEST), dtype=np.float64)


# heuristics on the development split of SMD, ASD and NAB: five rows back; values within ten of their own spreads, so
# that one outlier does not decide the coefficients; errors counted up to thirty usual ones.
N_LAGS = 5
MAX_VALUE = 10.0
MAX_ERROR = 30.0
RIDGE = 1e-3  # of the rows: holds the coefficients of a column that never moved
MIN_DEVIATION_RATIO = 0.3  # of the errors' standard deviation: a column that mostly rests has no median error
SMALLEST_ERROR = 1e-3  # of the column's spread; heuristic


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """Coefficients ``(n_columns, N_LAGS)``, the newest value first, and the usual error of each column."""

    level: Scaling
    coefficients: FloatArray
    usual_error: FloatArray

    @property
    def n_lags(self) -> int:
        """Number of previous rows that a prediction needs."""
        return N_LAGS

    def errors(self, rows: FloatArray) -> FloatArray:
        """Return each column's share of the mean error ``(n_rows, n_columns)``.

        Nothing where the value or one of the `N_LAGS` before it is absent.
        """
        if len(rows) <= N_LAGS:
            return np.zeros(rows.shape)
        off = _residuals(np.clip(self.level.apply(rows), -MAX_VALUE, MAX_VALUE), self.coefficients)
        size = np.minimum(np.abs(np.nan_to_num(off)) / self.usual_error, MAX_ERROR) / rows.shape[1]
        return np.concatenate([np.zeros((N_LAGS, rows.shape[1])), size])


def fit_prediction(healthy: FloatArray) -> Prediction:
    """Learn from healthy rows without gaps ``(n_rows, n_columns)``: least squares with a small ridge, per column."""
    level = fit_level(healthy)
    values = np.clip(level.apply(healthy), -MAX_VALUE, MAX_VALUE)
    past, now = _past(values), values[N_LAGS:]
    moments = np.einsum("tci,tcj->cij", past, past) + RIDGE * len(now) * np.eye(N_LAGS)
    coefficients = np.linalg.solve(moments, np.einsum("tci,tc->ci", past, now)[:, :, None])[:, :, 0]
    off = _residuals(values, coefficients)
    middle = MAD_TO_SD * np.median(np.abs(off), axis=0)
    usual = np.maximum(middle, np.maximum(MIN_DEVIATION_RATIO * off.std(axis=0), SMALLEST_ERROR))
    return Prediction(level=level, coefficients=coefficients, usual_error=usual)


def _past(values: FloatArray) -> FloatArray:
    """Return the values before each row from `N_LAGS` on ``(n_rows - N_LAGS, n_columns, N_LAGS)``, the newest first."""
    return np.stack([values[N_LAGS - lag : len(values) - lag] for lag in range(1, N_LAGS + 1)], axis=2)


def _residuals(values: FloatArray, coefficients: FloatArray) -> FloatArray:
    off = values[N_LAGS:].copy()
    for lag in range(1, N_LAGS + 1):
        off -= values[N_LAGS - lag : len(values) - lag] * coefficients[:, lag - 1]
    return off
