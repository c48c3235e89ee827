"""Fresh scores of a series whose level changes for good: what has lasted becomes the new centre of its columns.

Where the median of the remembered levels is above the usual one, the series is no longer what was learnt. Columns whose
median has left what any stretch of the healthy rows had are moved back onto their usual value, and judged from there.
Spreads and relations stay those of the healthy rows. The score that ranks rows does not follow: it stays high.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.novelty.score import (
    NORMAL_LEVEL,
    REMEMBERED_ROWS,
    NoveltyModel,
    ScoringState,
    begin,
    score_rows,
)
from telemetry.frames import FloatArray

REVIEW_ROWS = 64  # heuristic: a quarter of the remembered rows comes between two reviews


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FollowingState:
    """State between rows: `offset` ``(n_columns,)`` is how far each column was moved.

    `recent` ``(n_rows, n_columns)`` are the last raw rows, REMEMBERED_ROWS at most, `unreviewed` the number of rows
    since the last review.
    """

    scoring: ScoringState
    offset: FloatArray
    recent: FloatArray
    unreviewed: int = 0


def begin_following(model: NoveltyModel, before: FloatArray) -> FollowingState:
    """Return the state behind the healthy rows `before` ``(n_rows, n_columns)``."""
    return FollowingState(
        scoring=begin(model, before), offset=np.zeros(model.n_columns), recent=before[-REMEMBERED_ROWS:]
    )


def follow_rows(model: NoveltyModel, state: FollowingState, rows: FloatArray) -> tuple[FollowingState, FloatArray]:
    """Return the fresh score of rows ``(n_rows, n_columns)`` that follow the state's; cut elsewhere, they are equal."""
    parts, first = [np.empty(0)], 0
    while first < len(rows):
        part = rows[first : first + REVIEW_ROWS - state.unreviewed]
        scoring, scores = score_rows(model, state.scoring, part - state.offset)
        parts.append(scores.fresh_score)
        first += len(part)
        state = replace(
            state,
            scoring=scoring,
            recent=np.concatenate([state.recent, part])[-REMEMBERED_ROWS:],
            unreviewed=state.unreviewed + len(part),
        )
        if state.unreviewed == REVIEW_ROWS:
            state = replace(_reviewed(model, state), unreviewed=0)
    return state, np.concatenate(parts)


def _reviewed(model: NoveltyModel, state: FollowingState) -> FollowingState:
    """Move the columns that left the healthy levels, if the whole table is unusual for good."""
    _, flag_levels = state.scoring.levels
    if np.median(flag_levels) <= np.log(NORMAL_LEVEL):
        return state
    known = np.isfinite(state.recent)
    seen = known.any(axis=0)
    middle = model.usual.copy()
    middle[seen] = np.nanmedian(np.where(known, state.recent, np.nan)[:, seen], axis=0)
    moved = middle - model.usual
    offset = np.where(np.abs(moved) > model.usual_reach, moved, 0.0)
    if np.array_equal(offset, state.offset):
        return state
    return replace(state, offset=offset, scoring=begin(model, state.recent - offset))
