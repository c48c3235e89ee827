"""Distance of rows, together with those before them, from what was learnt of such courses.

The squared Mahalanobis distance of the values of the last rows: it sees columns that stopped moving together, shapes
and values that were never seen. (Ku, Storer and Georgakis, "Disturbance detection and isolation by dynamic principal
component analysis", Chemometrics and Intelligent Laboratory Systems 30, 1995; all directions are kept, and those
without variance get a floor.)
"""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.frames import FloatArray

# heuristic: a direction with less than a hundredth of a column's variance is taken to have that much: what did not move
# in the healthy stretch is not known to hardly move.
MIN_VARIANCE = 0.01
NORMAL_SHARE = 0.99  # heuristic: distances count in units of what this share of the healthy rows stayed below
SMALLEST = 1e-9  # a distance of rows that never differed; avoids a division by zero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """Learnt courses of `n_rows` rows of ``n_columns`` scaled values.

    `centre` ``(n,)`` and `precision` ``(n, n)`` belong to ``n = n_rows * n_columns`` values, the newest row first;
    `scale` is the distance that `NORMAL_SHARE` of the healthy rows stayed below.
    """

    n_rows: int
    centre: FloatArray
    precision: FloatArray
    scale: float

    def shares(self, scaled: FloatArray) -> FloatArray:
        """Return the columns' shares of each row's distance ``(n_rows, n_columns)``; they may be below zero.

        The mean squared distance over `scale`. Absent values add nothing. The contributions of columns to a quadratic
        distance: Nomikos and MacGregor, Technometrics 37(1), 1995.
        """
        off = _completed(_courses(scaled, self.n_rows) - self.centre, self.precision)
        shares = off * (off @ self.precision) / (off.shape[1] * self.scale)
        return np.asarray(shares.reshape(len(off), self.n_rows, -1).sum(axis=1), dtype=np.float64)


def fit_course(scaled: FloatArray, n_rows: int) -> Course:
    """Learn from healthy scaled rows without gaps ``(n_rows, n_columns)``."""
    courses = _courses(scaled, n_rows)
    spread, directions = np.linalg.eigh(np.atleast_2d(np.cov(courses.T)))
    precision = (directions / np.maximum(spread, MIN_VARIANCE)) @ directions.T
    course = Course(n_rows=n_rows, centre=courses.mean(axis=0), precision=precision, scale=1.0)
    far = course.shares(scaled).sum(axis=1)
    return replace(course, scale=max(float(np.quantile(far, NORMAL_SHARE)), SMALLEST))


def _courses(scaled: FloatArray, n_rows: int) -> FloatArray:
    """Return each row with those before it, the newest first ``(n_rows, n_rows * n_columns)``."""
    padded = np.concatenate([np.repeat(scaled[:1], n_rows - 1, axis=0), scaled])
    return np.concatenate(
        [padded[n_rows - 1 - lag : len(padded) - lag] for lag in range(n_rows)], axis=1, dtype=np.float64
    )


def _completed(off: FloatArray, precision: FloatArray) -> FloatArray:
    """Fill absent values with the expectation given the others, so that they add no distance."""
    absent = np.isnan(off)
    if not absent.any():
        return off
    completed = np.where(absent, 0.0, off)
    patterns, kinds = np.unique(absent, axis=0, return_inverse=True)
    for kind, pattern in enumerate(patterns):
        if pattern.any() and not pattern.all():
            rows = np.flatnonzero(kinds.reshape(-1) == kind)
            pull = completed[rows] @ precision[:, pattern]
            completed[np.ix_(rows, pattern)] = -np.linalg.solve(precision[np.ix_(pattern, pattern)], pull.T).T
    return completed
