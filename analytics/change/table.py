"""The change detectors over a table: one score for each row, by the column that changed the most.

Each column's mean and autocorrelation are learnt from healthy rows; the methods see the errors of that model, which are
nearly white (`analytics.change.whitening`). Page-Hinkley learns the mean from
what it is given, and sees the values themselves in their healthy spreads.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analytics.change.cusum import CusumState, cusum_step
from analytics.change.ewma import EwmaState, ewma_step
from analytics.change.page_hinkley import MIN_VALUES, PageHinkleyState, page_hinkley_step
from analytics.change.whitening import fit_autoregression, whitened
from telemetry.frames import FloatArray, TimeArray

N_BLOCKS = 4  # as `analytics.novelty.calibration`: each block is scored by what was learnt of the others
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
    take = _RUNNING[method](rows.shape[1])
    table = np.array([take(row, limit) for row in values]).reshape(rows.shape)
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


# Takes one row and the limit above which a sum restarts; returns how far each column has changed.
Running = Callable[[FloatArray, float], FloatArray]


def _cusum(n_columns: int) -> Running:
    state = CusumState.empty(n_columns)

    def take(values: FloatArray, limit: float) -> FloatArray:
        nonlocal state
        state = cusum_step(state, values, mean=0.0, sigma=1.0)
        changed = np.maximum(state.above, state.below)
        state = state.cleared(changed > limit)
        return changed

    return take


def _ewma(n_columns: int) -> Running:
    state = EwmaState.empty(n_columns)

    def take(values: FloatArray, limit: float) -> FloatArray:
        nonlocal state
        state = ewma_step(state, values, mean=0.0, sigma=1.0)
        changed = state.distance()
        kept = changed <= limit
        state = EwmaState(off_sigmas=state.off_sigmas * kept, n_values=state.n_values * kept)
        return changed

    return take


def _page_hinkley(n_columns: int) -> Running:
    state = PageHinkleyState.empty(n_columns)

    def take(values: FloatArray, limit: float) -> FloatArray:
        nonlocal state
        state = page_hinkley_step(state, values)
        changed = np.where(state.n_values >= MIN_VALUES, np.maximum(state.above, state.below), 0.0)
        kept = changed <= limit
        # The mean restarts as well: it is that of the level before the change.
        state = PageHinkleyState(
            n_values=state.n_values * kept, mean=state.mean * kept, above=state.above * kept, below=state.below * kept
        )
        return changed

    return take


_RUNNING: dict[ChangeMethod, Callable[[int], Running]] = {
    ChangeMethod.CUSUM: _cusum,
    ChangeMethod.EWMA: _ewma,
    ChangeMethod.PAGE_HINKLEY: _page_hinkley,
}


def _in_spreads(healthy: FloatArray, rows: FloatArray) -> FloatArray:
    known = np.where(np.isfinite(healthy), healthy, np.nan)
    spread = np.maximum(np.nanstd(known, axis=0), SMALLEST_SPREAD)
    return np.asarray((rows - np.nanmean(known, axis=0)) / spread, dtype=np.float64)
