"""Columns scaled to their usual value and spread, within bounds."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# heuristic: one value of a hundred spreads must not decide over all columns together; 20 and 40 score alike on SMD, ASD
# and NAB, 5 and 10 lose.
MAX_SPREADS = 20.0
MIN_LEVEL_RATIO = 0.001  # heuristic: sensors of ten bits resolve a thousandth of their level
SMALLEST = 1e-9  # a column of zeros; any value then counts as `MAX_SPREADS`
MIN_DEVIATION_RATIO = 0.3  # heuristic: a column that rests in most rows has no median deviation
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
    middle = 1.4826 * np.median(np.abs(healthy - centre), axis=0)  # the standard deviation of a normal
    spread = np.maximum(middle, MIN_DEVIATION_RATIO * healthy.std(axis=0))
    return Scaling(centre=centre, spread=np.maximum(spread, _finest(healthy, centre)))


def _finest(healthy: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the smallest credible spread of each column."""
    reach = np.maximum(np.abs(centre) * MIN_LEVEL_RATIO, np.ptp(healthy, axis=0) * MIN_RANGE_RATIO)
    return np.asarray(np.maximum(reach, SMALLEST), dtype=np.float64)
