"""The change detectors over a table: one score for each row, by the column that changed the most.

Each column's mean and autocorrelation are learnt from healthy rows; the methods see the errors of that first-order
autoregression, which are nearly white: a CUSUM with an allowance of 0.5 and a limit of 5 gives a false alarm every 931
values of white noise, and every 79 where neighbours correlate by 0.9. (Alwan and Roberts, "Time-series modeling for
statistical process control", Journal of Business and Economic Statistics 6(1), 1988, chart the errors of a fitted model
for that reason.) Page-Hinkley learns the mean from what it is given, and sees the values themselves in their healthy
spreads.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from analytics.change.control_charts import (
    MIN_VALUES,
    CusumState,
    EwmaState,
    PageHinkleyState,
    cusum_step,
    ewma_step,
    page_hinkley_step,
)
from analytics.novelty.calibration import N_BLOCKS
from telemetry.frames import FloatArray, MaskArray, TimeArray, filled

MAX_CORRELATION = 0.99  # a series nearer to a random walk has no mean to be off from; heuristic
MIN_PAIRS = 30  # heuristic: the error of a correlation is then below 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Autoregression:
    """Mean, correlation of neighbours and spread of the errors, ``(n_series,)``; NaN where too little was seen."""

    mean: FloatArray
    correlation: FloatArray
    error_sigma: FloatArray


def fit_autoregression(healthy: FloatArray) -> Autoregression:
    """Learn from healthy rows ``(n_rows, n_series)``; pairs with a gap are left out."""
    known = np.isfinite(healthy)
    count = known.sum(axis=0)
    mean = np.divide(
        np.where(known, healthy, 0.0).sum(axis=0), count, out=np.full(count.shape, np.nan), where=count > 0
    )
    off = np.where(known, healthy - mean, 0.0)
    pairs = known[1:] & known[:-1]
    spread = np.where(pairs, off[:-1] ** 2, 0.0).sum(axis=0)
    enough = (pairs.sum(axis=0) >= MIN_PAIRS) & (spread > 0)
    raw = np.divide((off[1:] * off[:-1] * pairs).sum(axis=0), spread, out=np.zeros(spread.shape), where=enough)
    correlation = np.clip(raw, -MAX_CORRELATION, MAX_CORRELATION)
    squares = np.where(pairs, (off[1:] - correlation * off[:-1]) ** 2, 0.0).sum(axis=0)
    sigma = np.sqrt(squares / np.maximum(pairs.sum(axis=0), 1))
    return Autoregression(
        mean=np.where(enough, mean, np.nan),
        correlation=np.where(enough, correlation, np.nan),
        error_sigma=np.where(enough, sigma, np.nan),
    )


def whitened(model: Autoregression, before: FloatArray, values: FloatArray) -> FloatArray:
    """Return the errors ``(n_series,)`` in sigmas of values that follow `before`; NaN where either is absent."""
    off = (values - model.mean) - model.correlation * (before - model.mean)
    errors = np.divide(off, model.error_sigma, out=np.full(off.shape, np.nan), where=model.error_sigma > 0)
    return np.asarray(errors, dtype=np.float64)


RELEARNT_VALUES = 256  # heuristic: a mean behind a change is then known to a sixteenth of a sigma
SMALLEST_SPREAD = 1e-9  # of a column that never moved in the healthy rows
SMALLEST_SCORE = 1e-3  # sums rest at zero, which has no logarithm; far below any threshold


class ChangeMethod(StrEnum):
    """Methods of change detection."""

    CUSUM = "cusum"
    EWMA = "ewma"
    PAGE_HINKLEY = "page-hinkley"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeScores:
    """Score ``(n_rows,)``, NaN where a row held nothing, and the column that it comes from, -1 there."""

    score: FloatArray
    leading: TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeModel:
    """Values of healthy rows as a method sees them: errors of an autoregression, or spreads about a mean."""

    method: ChangeMethod
    autoregression: Autoregression
    centre: FloatArray
    spread: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeState:
    """State of the charts, and the row before ``(n_columns,)``.

    `offset` ``(n_columns,)`` is the mean of the values since a column's last alarm, from `n_since` of them; the learnt
    mean holds while that is -1.
    """

    chart: Any
    before: FloatArray
    offset: FloatArray
    n_since: TimeArray

    def learn(self, values: FloatArray) -> "ChangeState":
        """Learn the mean anew from a row ``(n_columns,)`` of the columns that have alarmed."""
        if (self.n_since < 0).all():
            return self
        taken = np.isfinite(values) & (self.n_since >= 0) & (self.n_since < RELEARNT_VALUES)
        n_since = self.n_since + taken
        with np.errstate(invalid="ignore"):
            moved = self.offset + (values - self.offset) / np.maximum(n_since, 1)
        return replace(self, n_since=n_since, offset=np.where(taken, moved, self.offset))

    def centred(self, values: FloatArray) -> FloatArray:
        """Return a row less the means since the last alarms; NaN while a mean has too few values."""
        return np.where((self.n_since >= 0) & (self.n_since < MIN_VALUES), np.nan, values - self.offset)

    def alarmed(self, columns: MaskArray) -> "ChangeState":
        """Return the state behind alarms of the marked columns."""
        return replace(self, offset=np.where(columns, 0.0, self.offset), n_since=np.where(columns, 0, self.n_since))


def fit_changes(method: ChangeMethod, healthy: FloatArray) -> ChangeModel:
    """Learn from healthy rows ``(n_rows, n_columns)``; gaps are left out."""
    known = np.where(np.isfinite(healthy), healthy, np.nan)
    return ChangeModel(
        method=method,
        autoregression=fit_autoregression(healthy),
        centre=np.nanmean(known, axis=0),
        spread=np.maximum(np.nanstd(known, axis=0), SMALLEST_SPREAD),
    )


def begin_changes(model: ChangeModel) -> ChangeState:
    """Return the state before the first row."""
    kind, _ = _CHARTS[model.method]
    size = model.centre.size
    return ChangeState(
        chart=filled(kind, size),
        before=np.full(size, np.nan),
        offset=np.zeros(size),
        n_since=np.full(size, -1, dtype=np.int64),
    )


def score_changes(
    model: ChangeModel, state: ChangeState, rows: FloatArray, *, limit: float = np.inf
) -> tuple[ChangeState, ChangeScores]:
    """Score rows ``(n_rows, n_columns)`` that follow the state's; cut elsewhere, they get the same scores.

    A gap changes nothing. A sum that passes `limit` has alarmed and restarts at zero, and the mean of its column is
    learnt anew from the values behind: a level that changed for good alarms once. Cost: some array operations a row.
    """
    _, step = _CHARTS[model.method]
    if model.method is ChangeMethod.PAGE_HINKLEY:
        values = (rows - model.centre) / model.spread
    else:
        values = whitened(model.autoregression, np.concatenate([state.before[np.newaxis], rows[:-1]]), rows)
    table = np.empty(rows.shape)
    for place, row in enumerate(values):
        state = state.learn(row)
        chart, table[place] = step(state.chart, state.centred(row), limit)
        state = replace(state, chart=chart)
        if model.method is not ChangeMethod.PAGE_HINKLEY and table[place].max() > limit:
            state = state.alarmed(table[place] > limit)
    known = np.isfinite(rows).any(axis=1)
    leading = np.where(known, table.argmax(axis=1), -1)
    score = np.where(known, np.maximum(table.max(axis=1), SMALLEST_SCORE), np.nan)
    return replace(state, before=rows[-1]), ChangeScores(score=score, leading=leading)


def unseen_change_scores(method: ChangeMethod, healthy: FloatArray) -> tuple[FloatArray, ...]:
    """Return the scores of each block of healthy rows, each by what was learnt of the other blocks."""
    cuts = np.linspace(0, len(healthy), N_BLOCKS + 1).astype(int)
    found = []
    for first, beyond in itertools.pairwise(cuts):
        model = fit_changes(method, np.concatenate([healthy[:first], healthy[beyond:]]))
        found.append(score_changes(model, begin_changes(model), healthy[first:beyond])[1].score)
    return tuple(found)


def _cusum(state: CusumState, values: FloatArray, limit: float) -> tuple[CusumState, FloatArray]:
    state = cusum_step(state, values, mean=0.0, sigma=1.0)
    changed = np.maximum(state.above, state.below)
    return state.cleared(changed > limit), changed


def _ewma(state: EwmaState, values: FloatArray, limit: float) -> tuple[EwmaState, FloatArray]:
    state = ewma_step(state, values, mean=0.0, sigma=1.0)
    changed = state.distance()
    kept = changed <= limit
    return EwmaState(off_sigmas=state.off_sigmas * kept, n_values=state.n_values * kept), changed


def _page_hinkley(state: PageHinkleyState, values: FloatArray, limit: float) -> tuple[PageHinkleyState, FloatArray]:
    state = page_hinkley_step(state, values)
    changed = np.where(state.n_values >= MIN_VALUES, np.maximum(state.above, state.below), 0.0)
    kept = changed <= limit
    # The mean restarts as well: it is that of the level before the change.
    state = PageHinkleyState(
        n_values=state.n_values * kept, mean=state.mean * kept, above=state.above * kept, below=state.below * kept
    )
    return state, changed


# The state of each chart, and its step: from a row and the limit above which a sum restarts, how far each column has
# changed.
_CHARTS: dict[ChangeMethod, tuple[type[Any], Callable[[Any, FloatArray, float], tuple[Any, FloatArray]]]] = {
    ChangeMethod.CUSUM: (CusumState, _cusum),
    ChangeMethod.EWMA: (EwmaState, _ewma),
    ChangeMethod.PAGE_HINKLEY: (PageHinkleyState, _page_hinkley),
}
