"""General detectors over a table of series: scores, and flags within a budget of false alarms.

`novelty` looks at all columns together, the others for a change of any one column. All learn from healthy rows and are
then frozen; only the threshold is estimated again on the series itself (`analytics.novelty.calibration`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analytics.change.table import ChangeMethod, begin_changes, fit_changes, score_changes, unseen_change_scores
from analytics.novelty.calibration import (
    RENEWED_ROWS,
    AlarmBudget,
    AlarmRate,
    kept_on_healthy,
    running_levels,
    running_threshold,
    unseen_scores,
)
from analytics.novelty.following import begin_following, follow_rows
from analytics.novelty.score import NoveltyModel, NoveltyScores, begin, fit, score_rows
from telemetry.frames import FloatArray, MaskArray, TimeArray

BLOCK_ROWS = 4096  # rows scored between two reports of progress


class GeneralMethod(StrEnum):
    """General detector."""

    NOVELTY = "novelty"
    CUSUM = "cusum"
    EWMA = "ewma"
    PAGE_HINKLEY = "page-hinkley"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flagged:
    """Scores of all rows, healthy ones first, each ``(n_rows,)``.

    `level` is what the flag was compared with its threshold `threshold`, both NaN in healthy rows, which are never
    flagged; `leading` the column that a row's score comes from, -1 where it held nothing. `kept` is the rate of alarms
    on healthy rows, by thresholds of rows before them.
    """

    score: FloatArray
    level: FloatArray
    threshold: FloatArray
    leading: TimeArray
    kept: AlarmRate

    @property
    def flag(self) -> MaskArray:
        """Rows above their threshold."""
        return self.level > self.threshold


def flag_rows(
    method: GeneralMethod,
    healthy: FloatArray,
    rows: FloatArray,
    budget: AlarmBudget,
    *,
    done: Callable[[int], None] = lambda _: None,
) -> Flagged:
    """Learn from `healthy`, and judge `rows` that follow it, ``(n_rows, n_columns)`` each.

    `done` is called with the number of rows scored so far. ValueError for too few healthy rows.
    """
    if method is GeneralMethod.NOVELTY:
        return _novel(healthy, rows, budget, done)
    return _changed(ChangeMethod(method.value), healthy, rows, budget, done)


def _novel(healthy: FloatArray, rows: FloatArray, budget: AlarmBudget, done: Callable[[int], None]) -> Flagged:
    blocks = unseen_scores(healthy)
    model = fit(healthy)
    parts = _streamed(model, np.concatenate([healthy, rows]), done)
    score, leading = (np.concatenate([getattr(part, name) for part in parts]) for name in ("score", "leading"))
    unknown = np.full(len(healthy), np.nan)
    _, judged = follow_rows(model, begin_following(model, healthy), rows)
    return Flagged(
        score=score,
        level=np.concatenate([unknown, judged]),
        threshold=np.concatenate([unknown, running_levels(running_threshold(blocks, budget), judged)]),
        leading=leading,
        kept=kept_on_healthy(blocks, budget),
    )


def _streamed(model: NoveltyModel, rows: FloatArray, done: Callable[[int], None]) -> list[NoveltyScores]:
    state, parts = begin(model, rows[:0]), []
    for first in range(0, len(rows), BLOCK_ROWS):
        state, scores = score_rows(model, state, rows[first : first + BLOCK_ROWS])
        parts.append(scores)
        done(first + len(scores.score))
    return parts


def _changed(
    method: ChangeMethod, healthy: FloatArray, rows: FloatArray, budget: AlarmBudget, done: Callable[[int], None]
) -> Flagged:
    """Score changes of single columns; each alarm restarts the score."""
    blocks = unseen_change_scores(method, healthy)
    model = fit_changes(method, healthy)
    _, learnt = score_changes(model, begin_changes(model), healthy)
    done(len(healthy))
    threshold, state, levels = running_threshold(blocks, budget), begin_changes(model), np.empty(len(rows))
    parts = [learnt]
    for first in range(0, len(rows), RENEWED_ROWS):
        part = slice(first, first + RENEWED_ROWS)
        levels[part] = threshold.level
        state, scores = score_changes(model, state, rows[part], limit=float(levels[first]))
        threshold = threshold.after(scores.score)
        parts.append(scores)
        done(len(healthy) + first + len(scores.score))
    score, leading = (np.concatenate([getattr(part, name) for part in parts]) for name in ("score", "leading"))
    unknown = np.full(len(healthy), np.nan)
    return Flagged(
        score=score,
        level=np.concatenate([unknown, score[len(healthy) :]]),
        threshold=np.concatenate([unknown, levels]),
        leading=leading,
        kept=kept_on_healthy(blocks, budget),
    )
