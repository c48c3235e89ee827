"""Threshold that healthy time exceeds at a given rate, from the largest values of healthy blocks.

The largest of many values of a block follows an extreme-value law whatever the values follow; for tails that fall off
like a normal's or an exponential's it is Gumbel's ("Statistics of Extremes", 1958). Blocks, not single values, because
neighbours are correlated: what counts is how often a block holds an alarm at all.
"""

import math

import numpy as np

from analytics.scoring.bounds import block_draws
from telemetry.frames import FloatArray

# Euler-Mascheroni constant: the mean of a standard Gumbel distribution.
_EULER = 0.5772156649015329
# One-sided 95 % of a normal: a threshold is too low in one case of twenty.
_SURE = 1.6448536269514722
# Standard error of a Gumbel quantile by moments, over the deviation of the maxima and the root of their number, in the
# frequency factor K (Kite, "Frequency and Risk Analyses in Hydrology", 1977): sqrt(1 + 1.1396 K + 1.1 K^2).
_KITE_1, _KITE_2 = 1.1396, 1.1
# heuristic: an hour of ten-minute blocks is drawn together, since neighbouring blocks may still be correlated.
_DRAWN_TOGETHER = 6
_DRAWS, _SEED = 1000, 20240901  # heuristic: the 95 % quantile of a thousand draws moves by less than a per cent


def expected_threshold(maxima: FloatArray, *, blocks_per_alarm: float) -> FloatArray:
    """Return the level that one block in `blocks_per_alarm` exceeds, at its upper 95 % bound.

    Parameters
    ----------
    maxima
        Shape ``(..., n_blocks)``, two blocks or more. A series that never changed returns its largest value.
    blocks_per_alarm
        Above 1. Below the number of blocks nothing is extrapolated; the result is the same.

    Returns
    -------
    Shape ``(...)``; NaN where a maximum is not finite.
    """
    n_blocks = maxima.shape[-1]
    if n_blocks < 2 or not blocks_per_alarm > 1:
        raise ValueError(f"{n_blocks} blocks, {blocks_per_alarm:g} per alarm; expected two or more, and above 1")
    with np.errstate(invalid="ignore"):
        mean, spread = maxima.mean(axis=-1), maxima.std(axis=-1, ddof=1)
    found = moment_threshold(mean, spread, np.asarray(float(n_blocks)), blocks_per_alarm=blocks_per_alarm)
    return np.where(np.isfinite(maxima).all(axis=-1), np.maximum(found, maxima.max(axis=-1)), np.nan)


def moment_threshold(
    mean: FloatArray, spread: FloatArray, n_blocks: FloatArray, *, blocks_per_alarm: float
) -> FloatArray:
    """Return the same level from mean and deviation of the maxima of `n_blocks` blocks, all of one shape."""
    factor = _frequency_factor(blocks_per_alarm)
    error = np.sqrt((1.0 + _KITE_1 * factor + _KITE_2 * factor * factor) / np.maximum(n_blocks, 1.0))
    found: FloatArray = mean + spread * (factor + _SURE * error)
    return found


def bootstrapped_threshold(maxima: FloatArray, *, blocks_per_alarm: float) -> float:
    """Return the same level for one series of blocks, at its upper 95 % bound by a block bootstrap of the maxima.

    Circular blocks of blocks (Politis and Romano, 1992, see `analytics.scoring.bounds.block_draws`), because
    neighbours share load, room and hour of the day. Returns the larger of that and the bound in closed form.
    """
    closed = float(expected_threshold(maxima, blocks_per_alarm=blocks_per_alarm))
    rng = np.random.default_rng(_SEED)
    drawn = maxima[block_draws(len(maxima), block_rows=_DRAWN_TOGETHER, draws=_DRAWS, rng=rng)]
    levels = drawn.mean(axis=1) + drawn.std(axis=1, ddof=1) * _frequency_factor(blocks_per_alarm)
    return max(closed, float(np.quantile(levels, 0.95)))


def _frequency_factor(blocks_per_alarm: float) -> float:
    """Return how many standard deviations the quantile is above the mean, by moments."""
    reduced = -math.log(-math.log1p(-1.0 / blocks_per_alarm))
    return math.sqrt(6.0) / math.pi * (reduced - _EULER)
