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
from dataclasses import dataclass
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
from telemetry.frames import FloatArray, TimeArray, filled

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


SMALLEST_SPREAD = 1e-9  # of a column that never moved in the healthy rows


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


def change_scores(
    method: ChangeMethod, healthy: FloatArray, rows: FloatArray, *, limit: float = np.inf
) -> ChangeScores:
    """Score rows ``(n_rows, n_columns)`` against healthy ones.

    A gap changes nothing. A sum that passes `limit` has alarmed and restarts at zero, so that a past change does not
    alarm again. Cost: some array operations a row.
    """
    if method is ChangeMethod.PAGE_HINKLEY:
        values = _in_spreads(healthy, rows)
    else:
        model = fit_autoregression(healthy)
        before = np.concatenate([np.full((1, rows.shape[1]), np.nan), rows[:-1]])
        values = whitened(model, before, rows)
    kind, step = _CHARTS[method]
    state, table = filled(kind, rows.shape[1]), np.empty(rows.shape)
    for place, row in enumerate(values):
        state, table[place] = step(state, row, limit)
    known = np.isfinite(rows).any(axis=1)
    leading = np.where(known, table.argmax(axis=1), -1)
    return ChangeScores(score=np.where(known, table.max(axis=1), np.nan), leading=leading)


def unseen_change_scores(method: ChangeMethod, healthy: FloatArray) -> tuple[FloatArray, ...]:
    """Return the scores of each block of healthy rows, each by what was learnt of the other blocks."""
    cuts = np.linspace(0, len(healthy), N_BLOCKS + 1).astype(int)
    return tuple(
        change_scores(method, np.concatenate([healthy[:first], healthy[beyond:]]), healthy[first:beyond]).score
        for first, beyond in itertools.pairwise(cuts)
    )


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


def _in_spreads(healthy: FloatArray, rows: FloatArray) -> FloatArray:
    known = np.where(np.isfinite(healthy), healthy, np.nan)
    spread = np.maximum(np.nanstd(known, axis=0), SMALLEST_SPREAD)
    return np.asarray((rows - np.nanmean(known, axis=0)) / spread, dtype=np.float64)
