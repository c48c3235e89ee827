"""Numbers of the score table with their confidence: shares, rates, medians over runs, trust in probabilities."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analytics.scoring.bounds import middle_share, rate_bounds, share_bounds
from analytics.scoring.events import brier, expected_calibration_error
from telemetry.frames import FloatArray, MaskArray

_DRAWS = 1000
# Student's t at 97.5 % for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2), and
# that of the normal distribution for more.
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL_975 = 1.960
# Each hypothesis of one incident, the likeliest first: its probability, and whether it names what was wrong.
RankedProbabilities = Sequence[tuple[float, bool]]
# heuristic: four times bolder to four times as cautious, in steps of 3 %.
_GRID = np.exp(np.linspace(-math.log(4.0), math.log(4.0), 95))
# A hypothesis that is not reported has at most this probability, see `analytics.classification.score`.
_UNTOLD = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number and its 95 % bounds; None where nothing was there to be measured."""

    value: float | None
    low: float | None = None
    high: float | None = None


NOTHING = Measured(value=None)


def share(hits: int, of: int) -> Measured:
    """Return a share with the exact bounds of a binomial count."""
    if of == 0:
        return NOTHING
    low, high = share_bounds(hits, of)
    return Measured(value=hits / of, low=low, high=high)


def rate(count: int, exposure: float) -> Measured:
    """Return events per unit of exposure with the exact bounds of a Poisson count."""
    if exposure <= 0.0:
        return NOTHING
    low, high = rate_bounds(count, exposure)
    return Measured(value=count / exposure, low=low, high=high)


def mean(values: Sequence[float]) -> Measured:
    """Return the mean over runs with the bounds of Student's t; no bounds of a single one."""
    if not values:
        return NOTHING
    known = np.array(values, dtype=np.float64)
    middle, freedom = float(known.mean()), len(known) - 1
    if freedom == 0:
        return Measured(value=middle)
    t_975 = _T_975[freedom - 1] if freedom <= len(_T_975) else _NORMAL_975
    reach = t_975 * float(known.std(ddof=1)) / math.sqrt(len(known))
    return Measured(value=middle, low=middle - reach, high=middle + reach)


def median(values: Sequence[float]) -> Measured:
    """Return the median with the bounds of a percentile bootstrap over runs; the same values give the same bounds."""
    if not values:
        return NOTHING
    known = np.array(values, dtype=np.float64)
    drawn = np.random.default_rng(0).choice(known, size=(_DRAWS, len(known)))
    return _bounded(float(np.median(known)), np.median(drawn, axis=1))


def longest(values: Sequence[float]) -> Measured:
    """Return the largest of some values; what was seen bounds nothing."""
    return Measured(value=max(values)) if values else NOTHING


def brier_score(reported: Sequence[float], happened: Sequence[bool]) -> Measured:
    """Return the Brier score with the bounds of a bootstrap over events."""
    return _scored(brier, reported, happened)


def calibration_error(reported: Sequence[float], happened: Sequence[bool]) -> Measured:
    """Return the expected calibration error with the bounds of a bootstrap over events."""
    return _scored(expected_calibration_error, reported, happened)


def fitted_temperature(ranked: Sequence[RankedProbabilities]) -> Measured:
    """Return the temperature of least log loss, as a multiple of the one in force; nothing without any answer.

    Where every answer was right the loss falls for ever with the temperature. So one more answer is assumed in which
    the second hypothesis was right, as the rule of succession does (Laplace 1814): n right ones of n prove n + 1 of
    n + 2, and no more.
    """
    if not ranked:
        return NOTHING
    losses = [sum(_loss(one, float(times)) for one in ranked) + _surprise(ranked, float(times)) for times in _GRID]
    return Measured(value=float(_GRID[int(np.argmin(losses))]))


def _surprise(ranked: Sequence[RankedProbabilities], times: float) -> float:
    """Return the mean loss if the second hypothesis had been right."""
    turned = [[(probability, place == 1) for place, (probability, _) in enumerate(one)] for one in ranked]
    return sum(_loss(one, times) for one in turned) / len(ranked)


def _loss(one: RankedProbabilities, times: float) -> float:
    raised = [probability ** (1.0 / times) for probability, _ in one]
    untold = _UNTOLD ** (1.0 / times)
    right = sum(power for power, (_, names) in zip(raised, one, strict=True) if names)
    return -math.log((right or untold) / (sum(raised) + untold))


def _scored(
    measure: Callable[[FloatArray, MaskArray], float], reported: Sequence[float], happened: Sequence[bool]
) -> Measured:
    if not reported:
        return NOTHING
    predicted, was = np.array(reported, dtype=np.float64), np.array(happened, dtype=np.bool_)
    rows = np.random.default_rng(0).integers(len(predicted), size=(_DRAWS, len(predicted)))
    return _bounded(measure(predicted, was), np.array([measure(predicted[drawn], was[drawn]) for drawn in rows]))


def _bounded(value: float, drawn: FloatArray) -> Measured:
    low, high = middle_share(drawn) or (None, None)
    return Measured(value=value, low=low, high=high)
