"""Novelty score of the rows of a table of series: learnt on a healthy stretch, frozen, then streamed.

Readings of a row are added, each divided by what the healthy stretch stayed below in all but 1 % of its rows:

- *course*: the distance of the row together with the three before it (`analytics.novelty.course`).
- *surprise*: the mean size of the columns' errors of prediction, each predicted from its own last five values. It sees
  what moves in an unusual way at a usual level.
- *shape*, only of a single column, and only in the score that ranks: the distance of a longer course of `SHAPE_ROWS`
  values. Four values of one column hold little of its shape.

Their sum, the *level*, is smoothed over a few rows and set against the median of the 256 levels before: what has become
unusual just now counts more than what has been so for hours. Nothing is learnt by that, the level stays what it is. The
*score* smooths over as many rows as hold about a hundred values, and ranks rows; the *flag score* smooths over
two, and weighs the rise in full. The *fresh score*, which raises the flag, is the flag score less what the median of
the 256 levels is above the usual: after a change of level for good it is back to normal within 256 rows.
A value that is absent is evidence neither for nor against: the distance is that of the values that are there. A row
without any value has no score.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.novelty.course import NORMAL_SHARE, SMALLEST, Course, fit_course
from analytics.novelty.prediction import Prediction, Scaling, fit_prediction, fit_scaling
from telemetry.frames import FloatArray, MaskArray, TimeArray

# heuristics, made on the development split of SMD, ASD and NAB, one value for all series
# (docs/explanation/general-detectors.md holds the table).
COURSE_ROWS = 4
# heuristic: of 16, 32 and 48 values the last had the highest VUS-PR on NAB, whichever series was left out. Tables of
# two to 18 columns were not measured; with 19 and 38 (ASD, SMD) no longer course was tried.
SHAPE_ROWS = 48
SHAPE_MAX_SHARE = 0.25  # heuristic: of the healthy rows; a longer shape was seen less than four times
SMOOTHED_VALUES = 100.0
MIN_SMOOTHED_ROWS, MAX_SMOOTHED_ROWS = 5.0, 50.0
STAND_OUT_ROWS = 2.0
SCORE_RISE_WEIGHT, STAND_OUT_RISE_WEIGHT = 0.5, 1.0
REMEMBERED_ROWS = 256
MIN_ROWS = 30  # heuristic: six values for each of the five coefficients of a prediction
MIN_LEVEL = 1e-3  # heuristic: a hundredth of the usual level; lower ones count alike
# The level at which a reading is as high as 1 % of the healthy rows; a median above it is a changed level.
NORMAL_LEVEL = 1.0
MEDIAN_BLOCK_ROWS = 2048  # 8 MiB of windows at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoveltyModel:
    """Model learnt from ``n_columns`` series, frozen.

    `course` and, of a single column, `shape` are what was learnt of rows together; `surprise_scale` is what the errors
    of prediction stayed below in `NORMAL_SHARE` of the rows; `usual` are the columns' median values, `usual_reach` how
    far the median of any `REMEMBERED_ROWS` rows was from them, `usual_levels` ``(2,)`` the median levels of score and
    flag score.
    """

    usual: FloatArray
    usual_reach: FloatArray
    scaling: Scaling
    prediction: Prediction
    course: Course
    shape: Course | None
    surprise_scale: float
    usual_levels: FloatArray

    @property
    def n_columns(self) -> int:
        """Number of series in a row."""
        return int(self.usual.size)

    @property
    def n_recent(self) -> int:
        """Number of rows before a row that its readings need."""
        longest = self.course.n_rows if self.shape is None else self.shape.n_rows
        return max(longest - 1, self.prediction.n_lags)

    @property
    def smoothed_rows(self) -> float:
        """Number of rows over which the score is smoothed."""
        return float(np.clip(SMOOTHED_VALUES / self.n_columns, MIN_SMOOTHED_ROWS, MAX_SMOOTHED_ROWS))

    def parts(self, rows: FloatArray) -> FloatArray:
        """Return the columns' parts of the levels of score and flag score ``(n_rows, 2, n_columns)``."""
        scaled = self.scaling.apply(rows)
        flagged = self.course.shares(scaled) + self.prediction.errors(rows) / self.surprise_scale
        ranked = flagged if self.shape is None else flagged + self.shape.shares(scaled)
        return np.stack([ranked, flagged], axis=1)


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
    """Scores of each row ``(n_rows,)``, NaN for an empty row; healthy rows stay near 1.

    `fresh_score` is the flag score without what has lasted. `leading` is the column that added most to the level, -1
    where a row held nothing.
    """

    score: FloatArray
    flag_score: FloatArray
    fresh_score: FloatArray
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
    scaled = scaling.apply(rows)
    shape_rows = min(SHAPE_ROWS, int(SHAPE_MAX_SHARE * len(rows))) if rows.shape[1] == 1 else 0
    surprised = prediction.errors(rows).sum(axis=1)
    model = NoveltyModel(
        usual=usual,
        usual_reach=_reach(rows, usual),
        scaling=scaling,
        prediction=prediction,
        course=fit_course(scaled, COURSE_ROWS),
        shape=fit_course(scaled, shape_rows) if shape_rows > COURSE_ROWS else None,
        surprise_scale=max(float(np.quantile(surprised, NORMAL_SHARE)), SMALLEST),
        usual_levels=np.ones(2),
    )
    return replace(model, usual_levels=np.median(model.parts(rows).sum(axis=2), axis=0))


def begin(model: NoveltyModel, before: FloatArray) -> ScoringState:
    """Return the state behind the rows `before` ``(n_rows, n_columns)``; where there is none, all was usual."""
    # Twice what is remembered: smoothing has then forgotten where it began.
    before = before[-model.n_recent - 2 * REMEMBERED_ROWS :]
    if len(before) <= model.n_recent:
        before = np.concatenate([np.full((model.n_recent - len(before), model.n_columns), np.nan), before])
    state = ScoringState(
        recent=before[: model.n_recent],
        shares=np.full((2, model.n_columns), np.nan),
        levels=np.repeat(np.log(np.maximum(model.usual_levels, MIN_LEVEL))[:, None], REMEMBERED_ROWS, axis=1),
    )
    return score_rows(model, state, before[model.n_recent :])[0]


def score_rows(model: NoveltyModel, state: ScoringState, rows: FloatArray) -> tuple[ScoringState, NoveltyScores]:
    """Score rows ``(n_rows, n_columns)`` that follow the state's; cut elsewhere, they get the same scores.

    A column without a value keeps the share it had.
    """
    present = np.isfinite(rows)
    n_recent = len(state.recent)
    course_rows = np.concatenate([state.recent, np.where(present, rows, np.nan)])
    gains = np.array([[1.0 / model.smoothed_rows], [1.0 / STAND_OUT_ROWS]])
    shares, smoothed = _smoothed(state.shares, model.parts(course_rows)[n_recent:], present, gains)
    known = present.any(axis=1)
    level = np.log(np.maximum(np.nansum(smoothed, axis=2), MIN_LEVEL)).T
    scores = np.full((3, len(rows)), np.nan)
    levels, rise = _rises(state.levels, level[:, known])
    lasting = np.maximum(level[1, known] - rise[1] - np.log(NORMAL_LEVEL), 0.0)
    scores[0, known] = level[0, known] + SCORE_RISE_WEIGHT * rise[0]
    scores[1, known] = level[1, known] + STAND_OUT_RISE_WEIGHT * rise[1]
    scores[2, known] = scores[1, known] - lasting
    score, flag_score, fresh_score = np.exp(scores)
    leading = np.where(known, np.nan_to_num(smoothed[:, 0]).argmax(axis=1), -1)
    return (
        ScoringState(recent=course_rows[-n_recent:], shares=shares, levels=levels),
        NoveltyScores(score=score, flag_score=flag_score, fresh_score=fresh_score, leading=leading),
    )


def _smoothed(
    shares: FloatArray, parts: FloatArray, present: MaskArray, gains: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Smooth the columns' shares over rows at both gains; return the last ones, and all ``(n_rows, 2, n_columns)``."""
    smoothed = np.empty(parts.shape)
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


def _filled(rows: FloatArray, usual: FloatArray) -> FloatArray:
    """Hold each column's last value over gaps of what is learnt; the usual value before the first."""
    known = np.isfinite(rows)
    if known.all():
        return rows
    last = np.maximum.accumulate(np.where(known, np.arange(len(rows))[:, None], -1), axis=0)
    held = np.take_along_axis(rows, np.maximum(last, 0), axis=0)
    return np.where(last >= 0, held, usual)


def _reach(rows: FloatArray, usual: FloatArray) -> FloatArray:
    """Return how far the median of `REMEMBERED_ROWS` rows gets from the usual value, over stretches that overlap."""
    length = min(REMEMBERED_ROWS, len(rows))
    stretches = np.lib.stride_tricks.sliding_window_view(rows, length, axis=0)[:: max(length // 4, 1)]
    return np.asarray(np.abs(np.median(stretches, axis=2) - usual).max(axis=0), dtype=np.float64)
