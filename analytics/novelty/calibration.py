"""Thresholds and conformal p-values from scores of healthy rows, for a budget of false alarms.

Cross-conformal (Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence 74, 2015): the
healthy stretch is cut into blocks, and each block is scored by a model that learnt from the others, so that the
threshold is set by rows the model had not seen. Blocks, not single rows, because neighbours are correlated.
What is counted is alarms, not rows: scores of neighbouring rows cross a threshold together.
"""

import itertools
import math

import numpy as np

from analytics.novelty.score import MIN_ROWS, begin, fit, score_rows
from analytics.scoring.events import stretches
from telemetry.frames import FloatArray

N_BLOCKS = 4  # heuristic: four fits, each on three quarters
MIN_HEALTHY_ROWS = 2 * MIN_ROWS  # heuristic: every fit keeps 45 rows
# heuristic: with fewer alarms than this in the healthy stretch their number is uncertain, and the tail of the highest
# scores is continued as an exponential one (peaks over threshold: Davison and Smith, J. R. Stat. Soc. B 52(3), 1990).
MIN_COUNTED_ALARMS = 5.0
SEARCH_STEPS = 40  # halvings; the threshold is then known to better than any score


def unseen_scores(healthy: FloatArray) -> tuple[FloatArray, ...]:
    """Return the flag score of each block's rows by a model of the other blocks; ValueError for too few rows."""
    if len(healthy) < MIN_HEALTHY_ROWS:
        raise ValueError(f"{len(healthy)} healthy rows; at least {MIN_HEALTHY_ROWS} are needed")
    cuts = np.linspace(0, len(healthy), N_BLOCKS + 1).astype(int)
    found = []
    for first, beyond in itertools.pairwise(cuts):
        model = fit(np.concatenate([healthy[:first], healthy[beyond:]]))
        _, scores = score_rows(model, begin(model, healthy[:first]), healthy[first:beyond])
        found.append(scores.flag_score)
    return tuple(found)


def threshold_for(blocks: tuple[FloatArray, ...], *, alarms_per_1000_rows: float, join_rows: int) -> float:
    """Return the score above which healthy blocks raise `alarms_per_1000_rows`; alarms `join_rows` apart are one.

    Works on logarithms, as scores have heavy tails: they are above zero. NaN rows raise nothing. ValueError for a
    budget that is not above zero, or without any score.
    """
    blocks = tuple(np.log(block) for block in blocks)
    known = np.concatenate(blocks)
    known = known[np.isfinite(known)]
    if alarms_per_1000_rows <= 0 or known.size == 0:
        raise ValueError("a threshold needs a budget above zero and at least one score")
    wanted = alarms_per_1000_rows * known.size / 1000
    if wanted >= MIN_COUNTED_ALARMS:
        return math.exp(_counted(blocks, known, wanted=wanted, join_rows=join_rows))
    counted = _counted(blocks, known, wanted=MIN_COUNTED_ALARMS, join_rows=join_rows)
    peaks = _peaks(blocks, counted, join_rows=join_rows)
    if not peaks.size:
        return math.exp(counted)
    return math.exp(counted + float(np.mean(peaks - counted)) * math.log(max(len(peaks) / wanted, 1.0)))


def p_value(scores: FloatArray, healthy: FloatArray) -> FloatArray:
    """Return the share of healthy scores at least as high, the score itself counted as one of them; NaN stays NaN.

    Never below 1 / (n + 1): n healthy scores cannot resolve a rarer event (Vovk, Gammerman and Shafer, "Algorithmic
    Learning in a Random World", 2005).
    """
    known = np.sort(healthy[np.isfinite(healthy)])
    above = known.size - np.searchsorted(known, scores, side="left")
    return np.where(np.isfinite(scores), (above + 1) / (known.size + 1), np.nan)


def _counted(blocks: tuple[FloatArray, ...], known: FloatArray, *, wanted: float, join_rows: int) -> float:
    """Return a threshold, found from above the median, at which the blocks raise at most `wanted` alarms."""
    low, high = float(np.median(known)), float(known.max())
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        if sum(len(stretches(block > middle, join_rows=join_rows)) for block in blocks) > wanted:
            low = middle
        else:
            high = middle
    return high


def _peaks(blocks: tuple[FloatArray, ...], threshold: float, *, join_rows: int) -> FloatArray:
    """Return the highest score of each alarm above `threshold`."""
    return np.array(
        [
            np.nanmax(block[first : last + 1])
            for block in blocks
            for first, last in stretches(block > threshold, join_rows=join_rows)
        ]
    )
