"""Novelty score of the rows of a table of series: learnt on a healthy stretch, frozen, then streamed.

Two readings of a row are added, each divided by what the healthy stretch stayed below in all but 1 % of its rows:

- *course*: the squared Mahalanobis distance of the row together with the three before it. It sees columns that stopped
  moving together, and values that were never seen. (Ku, Storer and Georgakis, "Disturbance detection and isolation by
  dynamic principal component analysis", Chemometrics and Intelligent Laboratory Systems 30, 1995; all directions are
  kept, and those without variance get a floor.)
- *surprise*: the mean size of the columns' errors of prediction, each predicted from its own last five values. It sees
  what moves in an unusual way at a usual level.

Their sum, the *level*, is smoothed over a few rows and set against the median of the 256 levels before: what has become
unusual just now counts more than what has been so for hours. Nothing is learnt by that, the level stays what it is. The
*score* smooths over as many rows as hold about a hundred values, and ranks rows; the *flag score* smooths over
two, weighs the rise in full, and raises the flag.
A value that is absent is evidence neither for nor against: the distance is that of the values that are there. A row
without any value has no score.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.novelty.prediction import Prediction, Scaling, fit_prediction, fit_scaling
from telemetry.frames import FloatArray, MaskArray, TimeArray

# heuristics, made on the development split of SMD, ASD and NAB, one value for all series
# (docs/explanation/general-detectors.md holds the table).
COURSE_ROWS = 4
SMOOTHED_VALUES = 100.0
MIN_SMOOTHED_ROWS, MAX_SMOOTHED_ROWS = 5.0, 50.0
NORMAL_SHARE = 0.99
STAND_OUT_ROWS = 2.0
SCORE_RISE_WEIGHT, STAND_OUT_RISE_WEIGHT = 0.5, 1.0
REMEMBERED_ROWS = 256
# heuristic: a direction with less than a hundredth of a column's variance is taken to have that much: what did not move
# in the healthy stretch is not known to hardly move.
MIN_VARIANCE = 0.01
MIN_ROWS = 30  # heuristic: six values for each of the five coefficients of a prediction
SMALLEST = 1e-9  # a distance of rows that never differed; avoids a division by zero
MIN_LEVEL = 1e-3  # heuristic: a hundredth of the usual level; lower ones count alike
MEDIAN_BLOCK_ROWS = 2048  # 8 MiB of windows at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoveltyModel:
    """Model learnt from ``n_columns`` series, frozen.

    `centre` ``(n,)`` and `precision` ``(n, n)`` belong to ``n = COURSE_ROWS * n_columns`` scaled values, the newest row
    first. `course_scale` and `surprise_scale` are what the two readings stayed below in `NORMAL_SHARE` of the rows,
    `usual` the columns' median values, `usual_level` the median level.
    """

    usual: FloatArray
    scaling: Scaling
    prediction: Prediction
    centre: FloatArray
    precision: FloatArray
    course_scale: float
    surprise_scale: float
    usual_level: float

    @property
    def n_columns(self) -> int:
        """Number of series in a row."""
        return int(self.usual.size)

    @property
    def smoothed_rows(self) -> float:
        """Number of rows over which the score is smoothed."""
        return float(np.clip(SMOOTHED_VALUES / self.n_columns, MIN_SMOOTHED_ROWS, MAX_SMOOTHED_ROWS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoringState:
    """State carried to the next row.

    `recent` ``(n_rows, n_columns)`` are the last raw rows, NaN where absent or before the first. `shares`
    ``(2, n_columns)`` are the columns' parts of the level, smoothed for the score and for the flag score, NaN before a
    column's first value; `levels` ``(2, REMEMBERED_ROWS)`` the logarithms of the levels before, oldest first.
    """

    recent: FloatArray
    shares: FloatArray
    levels: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoveltyScores:
    """Score and flag score of each row ``(n_rows,)``, NaN for an empty row; healthy rows stay near 1.

    `leading` ``(n_rows,)`` is the column that added most to the level, -1 where a row held nothing.
    """

    score: FloatArray
    flag_score: FloatArray
    leading: TimeArray


def fit(healthy: FloatArray) -> NoveltyModel:
    """Learn from healthy rows ``(n_rows, n_columns)``; a gap counts as the column's last value.

    Takes some milliseconds for 20 columns, and grows with the square of their number. ValueError for too few rows, or
    for a column without any value.
    """
    if healthy.ndim != 2 or len(healthy) < MIN_ROWS or healthy.shape[1] == 0:
        raise ValueError(f"{len(healthy)} healthy rows; at least {MIN_ROWS} rows of one column or more are needed")
    absent = np.flatnonzero(~np.isfinite(healthy).any(axis=0))
    if absent.size:
        raise ValueError(f"column {absent[0]} holds no value in the healthy rows")
    usual = np.nanmedian(np.where(np.isfinite(healthy), healthy, np.nan), axis=0)
    rows = _filled(healthy, usual)
    scaling, prediction = fit_scaling(rows), fit_prediction(rows)
    course = _courses(scaling.apply(rows))
    spread, directions = np.linalg.eigh(np.atleast_2d(np.cov(course.T)))
    model = NoveltyModel(
        usual=usual,
        scaling=scaling,
        prediction=prediction,
        centre=course.mean(axis=0),
        precision=(directions / np.maximum(spread, MIN_VARIANCE)) @ directions.T,
        course_scale=1.0,
        surprise_scale=1.0,
        usual_level=1.0,
    )
    far, surprised = _course_shares(model, course).sum(axis=1), prediction.errors(rows).sum(axis=1)
    course_scale, surprise_scale = (
        max(float(np.quantile(reading, NORMAL_SHARE)), SMALLEST) for reading in (far, surprised)
    )
    level = float(np.median(far / course_scale + surprised / surprise_scale))
    return replace(model, course_scale=course_scale, surprise_scale=surprise_scale, usual_level=level)


def begin(model: NoveltyModel, before: FloatArray) -> ScoringState:
    """Return the state behind the rows `before` ``(n_rows, n_columns)``; where there is none, all was usual."""
    state = ScoringState(
        recent=np.full((max(COURSE_ROWS - 1, model.prediction.n_lags), model.n_columns), np.nan),
        shares=np.full((2, model.n_columns), np.nan),
        levels=np.full((2, REMEMBERED_ROWS), np.log(max(model.usual_level, MIN_LEVEL))),
    )
    # Twice what is remembered: smoothing has then forgotten where it began.
    return score_rows(model, state, before[-2 * REMEMBERED_ROWS :])[0]


def score_rows(model: NoveltyModel, state: ScoringState, rows: FloatArray) -> tuple[ScoringState, NoveltyScores]:
    """Score rows ``(n_rows, n_columns)`` that follow the state's; cut elsewhere, they get the same scores.

    A column without a value keeps the share it had.
    """
    present = np.isfinite(rows)
    n_recent = len(state.recent)
    course_rows = np.concatenate([state.recent, np.where(present, rows, np.nan)])
    course = _courses(model.scaling.apply(course_rows))[n_recent:]
    parts = _course_shares(model, course) / model.course_scale
    parts += model.prediction.errors(course_rows)[n_recent:] / model.surprise_scale
    gains = np.array([[1.0 / model.smoothed_rows], [1.0 / STAND_OUT_ROWS]])
    shares, smoothed = _smoothed(state.shares, parts, present, gains)
    known = present.any(axis=1)
    level = np.log(np.maximum(np.nansum(smoothed, axis=2), MIN_LEVEL)).T
    score, flag_score = np.full((2, len(rows)), np.nan)
    levels, rise = _rises(state.levels, level[:, known])
    score[known] = np.exp(level[0, known] + SCORE_RISE_WEIGHT * rise[0])
    flag_score[known] = np.exp(level[1, known] + STAND_OUT_RISE_WEIGHT * rise[1])
    leading = np.where(known, np.nan_to_num(smoothed[:, 0]).argmax(axis=1), -1)
    return (
        ScoringState(recent=course_rows[-n_recent:], shares=shares, levels=levels),
        NoveltyScores(score=score, flag_score=flag_score, leading=leading),
    )


def _smoothed(
    shares: FloatArray, parts: FloatArray, present: MaskArray, gains: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Smooth the columns' shares over rows at both gains; return the last ones, and all ``(n_rows, 2, n_columns)``."""
    smoothed = np.empty((len(parts), 2, parts.shape[1]))
    for row, part in enumerate(parts):
        moved = np.where(np.isnan(shares), part, shares + gains * (part - shares))
        shares = np.where(present[row], moved, shares)
        smoothed[row] = shares
    return shares, smoothed


def _rises(before: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the levels to remember, and the rise of each level above the median of those before it."""
    course = np.concatenate([before, level], axis=1)
    rise = np.empty_like(level)
    for begin_row in range(0, level.shape[1], MEDIAN_BLOCK_ROWS):
        block = course[:, begin_row : begin_row + MEDIAN_BLOCK_ROWS + REMEMBERED_ROWS - 1]
        block = block[:, : min(block.shape[1], level.shape[1] - begin_row + REMEMBERED_ROWS - 1)]
        medians = np.median(np.lib.stride_tricks.sliding_window_view(block, REMEMBERED_ROWS, axis=1), axis=2)
        rows = slice(begin_row, begin_row + medians.shape[1])
        rise[:, rows] = level[:, rows] - medians
    return course[:, -REMEMBERED_ROWS:], rise


def _courses(scaled: FloatArray) -> FloatArray:
    """Return each row with those before it, the newest first ``(n_rows, COURSE_ROWS * n_columns)``."""
    padded = np.concatenate([np.repeat(scaled[:1], COURSE_ROWS - 1, axis=0), scaled])
    return np.concatenate(
        [padded[COURSE_ROWS - 1 - lag : len(padded) - lag] for lag in range(COURSE_ROWS)], axis=1, dtype=np.float64
    )


def _course_shares(model: NoveltyModel, course: FloatArray) -> FloatArray:
    """Return the columns' shares of the mean squared distance ``(n_rows, n_columns)``; they may be below zero.

    The contributions of columns to a quadratic distance: Nomikos and MacGregor, Technometrics 37(1), 1995.
    """
    off = _completed(course - model.centre, model.precision)
    shares = off * (off @ model.precision) / off.shape[1]
    return np.asarray(shares.reshape(len(course), COURSE_ROWS, model.n_columns).sum(axis=1), dtype=np.float64)


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


def _filled(rows: FloatArray, usual: FloatArray) -> FloatArray:
    """Hold each column's last value over gaps of what is learnt; the usual value before the first."""
    known = np.isfinite(rows)
    if known.all():
        return rows
    last = np.maximum.accumulate(np.where(known, np.arange(len(rows))[:, None], -1), axis=0)
    held = np.take_along_axis(rows, np.maximum(last, 0), axis=0)
    return np.where(last >= 0, held, usual)
