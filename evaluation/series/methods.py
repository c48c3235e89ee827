"""Methods compared on labelled series: ours, and common ones at their own defaults.

Each method gives two scores of every row, one that ranks rows and one by which alarms are raised; all but ours have one
for both. The libraries are imported where they are used: they belong to the dependency group `evaluate`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from analytics.novelty.score import begin, fit, score_rows
from physics.constants import MAD_TO_SD
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray

Scores = tuple[FloatArray, FloatArray]

LIMIT_SHARE = 0.001  # of the healthy values of a column lie beyond each of its limits; heuristic
MAD_ROWS = 256  # a day at five minutes; heuristic
MATRIX_ROWS = 32  # length of the compared shapes; heuristic
PCA_SHARE = 0.95  # of the healthy variance; what textbooks on process monitoring take
PCA_ROWS = 20  # a moving mean of the residual; heuristic
NEIGHBOUR_ROWS = 2048  # healthy rows to be near to; heuristic
MIN_SPREAD_RATIO = 1e-3  # of a column's healthy range, where its rolling deviation is smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Method that scores rows after a healthy stretch: ``(healthy, rows, full)`` to scores ``(n_rows,)``."""

    name: str
    scores: Callable[[FloatArray, FloatArray, bool], Scores]


def ours(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001 -- one shape for all methods
    """Return the novelty score, and how much each row stands out."""
    del full
    model = fit(healthy)
    _, scores = score_rows(model, begin(model, healthy), rows)
    return scores.score, scores.flag_score


def static_limits(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return how far the worst column is beyond the limits that its healthy values set, in widths of its band."""
    del full
    low, high = np.quantile(healthy, [LIMIT_SHARE, 1 - LIMIT_SHARE], axis=0)
    width = np.maximum(high - low, 1e-6)
    beyond = np.max(np.maximum(low - rows, rows - high) / width, axis=1)
    return beyond, beyond


def rolling_mad(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return how far the worst column is from the median of its last `MAD_ROWS` values, in deviations of these."""
    del full
    length = min(MAD_ROWS, len(healthy))
    course = np.concatenate([healthy[-length:], rows])
    worst = np.zeros(len(rows))
    for column, smallest in enumerate(np.maximum(MIN_SPREAD_RATIO * np.ptp(healthy, axis=0), 1e-6)):
        windows = np.lib.stride_tricks.sliding_window_view(course[:, column], length)[:-1]
        middle = np.median(windows, axis=1)
        spread = MAD_TO_SD * np.median(np.abs(windows - middle[:, None]), axis=1)
        np.maximum(worst, np.abs(rows[:, column] - middle) / np.maximum(spread, smallest), out=worst)
    return worst, worst


def isolation_forest(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return the score of scikit-learn's Isolation Forest."""
    del full
    ensemble = _library("sklearn.ensemble")
    score = -ensemble.IsolationForest(random_state=0).fit(healthy).score_samples(rows)
    return score, score


def pca_residual(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return the squared distance of each row from the directions that hold `PCA_SHARE` of the healthy variance.

    Known as Q or squared prediction error (Jackson and Mudholkar, Technometrics 21(3), 1979), with scikit-learn's PCA.
    Of a single column nothing would be left, so its last `MATRIX_ROWS` values stand for columns.
    """
    del full
    if healthy.shape[1] == 1:
        course = np.concatenate([healthy, rows])[:, 0]
        shapes = np.lib.stride_tricks.sliding_window_view(course, MATRIX_ROWS)
        healthy, rows = shapes[: len(shapes) - len(rows)], shapes[len(shapes) - len(rows) :]
    healthy, rows = _standard(healthy, rows)
    directions = _library("sklearn.decomposition").PCA(n_components=PCA_SHARE, svd_solver="full").fit(healthy)
    left = rows - directions.inverse_transform(directions.transform(rows))
    score = np.asarray(np.square(left).sum(axis=1), dtype=np.float64)
    return score, score


def smoothed_pca(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return the mean of `pca_residual` over the last `PCA_ROWS` rows."""
    residual, _ = pca_residual(healthy, rows, full)
    sums = np.concatenate([np.zeros(1), np.cumsum(residual)])
    ends = np.arange(1, len(residual) + 1)
    begins = np.maximum(ends - PCA_ROWS, 0)
    score = (sums[ends] - sums[begins]) / (ends - begins)
    return score, score


def nearest_neighbours(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return the mean distance of each row to its five nearest healthy ones (scikit-learn, its default number).

    The healthy rows are `NEIGHBOUR_ROWS` at even distances, four times as many in full: each pair of rows costs.
    """
    healthy, rows = _standard(healthy, rows)
    kept = np.unique(np.linspace(0, len(healthy) - 1, NEIGHBOUR_ROWS * (4 if full else 1)).astype(np.int64))
    near = _library("sklearn.neighbors").NearestNeighbors(algorithm="brute").fit(healthy[kept])
    score = np.asarray(near.kneighbors(rows)[0].mean(axis=1), dtype=np.float64)
    return score, score


def half_space_trees(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return the score of river's half-space trees, which go on learning as they are meant to."""
    del full
    anomaly = _library("river.anomaly")
    low, width = healthy.min(axis=0), np.ptp(healthy, axis=0)
    width = np.where(width > 0, width, 1.0)
    trees = anomaly.HalfSpaceTrees(seed=0, limits=dict.fromkeys(range(healthy.shape[1]), (0.0, 1.0)))
    for row in np.clip((healthy - low) / width, 0, 1).tolist():
        trees.learn_one(dict(enumerate(row)))
    score = np.empty(len(rows))
    for place, row in enumerate(np.clip((rows - low) / width, 0, 1).tolist()):
        values = dict(enumerate(row))
        score[place] = trees.score_one(values)
        trees.learn_one(values)
    return score, score


def matrix_profile(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
    """Return the mean distance, over columns, of the last `MATRIX_ROWS` values to the nearest healthy shape (stumpy).

    The healthy shapes are those of the last 1,024 rows, of the last 8,192 in full: each pair of shapes costs.
    """
    stumpy = _library("stumpy")
    course = np.concatenate([healthy[-MATRIX_ROWS + 1 :], rows])
    known = healthy[-8192 if full else -1024 :]
    total, counted = np.zeros(len(rows)), 0
    for column in np.flatnonzero(np.ptp(course, axis=0) > 0):
        near = stumpy.stump(course[:, column].copy(), MATRIX_ROWS, known[:, column].copy(), ignore_trivial=False)
        distance = near[:, 0].astype(np.float64)
        # Shapes without any variance have no distance; two unrelated ones are the square root of 2 m apart.
        total += np.where(np.isfinite(distance), distance, np.sqrt(2 * MATRIX_ROWS))
        counted += 1
    score = total / max(counted, 1)
    return score, score


METHODS: tuple[Method, ...] = (
    Method(name="ours", scores=ours),
    Method(name="static_limits", scores=static_limits),
    Method(name="rolling_mad", scores=rolling_mad),
    Method(name="isolation_forest", scores=isolation_forest),
    Method(name="pca_residual", scores=pca_residual),
    Method(name="smoothed_pca", scores=smoothed_pca),
    Method(name="nearest_neighbours", scores=nearest_neighbours),
    Method(name="half_space_trees", scores=half_space_trees),
    Method(name="matrix_profile", scores=matrix_profile),
)


def _standard(healthy: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both off the healthy means, in healthy deviations; a column that never moved has a deviation of one."""
    spread = healthy.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    centre = healthy.mean(axis=0)
    return (healthy - centre) / spread, (rows - centre) / spread


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as err:
        raise EnvironmentLacksError(
            f"{name.partition('.')[0]} is not installed; it is in the group `evaluate`"
        ) from err
