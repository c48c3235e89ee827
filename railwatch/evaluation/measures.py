"""Numbers of the score table with their confidence: shares, rates, medians over runs, trust in probabilities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analytics.scoring.bounds import middle_share, rate_bounds, share_bounds
from analytics.scoring.probabilities import brier, expected_calibration_error
from telemetry.frames import FloatArray, MaskArray

_DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number and its 95 % bounds; None where nothing was there to be measured."""

    value: float | None
    low: float | None = None
    high: float | None = None


NOTHING = Measured(value=None)


def share(hits: int, of: int) -> Measured:
    """Give a share with the exact bounds of a binomial count."""
    if of == 0:
        return NOTHING
    low, high = share_bounds(hits, of)
    return Measured(value=hits / of, low=low, high=high)


def rate(count: int, exposure: float) -> Measured:
    """Give events per unit of exposure with the exact bounds of a Poisson count."""
    if exposure <= 0.0:
        return NOTHING
    low, high = rate_bounds(count, exposure)
    return Measured(value=count / exposure, low=low, high=high)


def median(values: Sequence[float]) -> Measured:
    """Give the median with the bounds of a percentile bootstrap over runs; the same values give the same bounds."""
    if not values:
        return NOTHING
    known = np.array(values, dtype=np.float64)
    drawn = np.random.default_rng(0).choice(known, size=(_DRAWS, len(known)))
    return _bounded(float(np.median(known)), np.median(drawn, axis=1))


def longest(values: Sequence[float]) -> Measured:
    """Give the largest of some values; what was seen bounds nothing."""
    return Measured(value=max(values)) if values else NOTHING


def brier_score(told: Sequence[float], happened: Sequence[bool]) -> Measured:
    """Give the Brier score with the bounds of a bootstrap over events."""
    return _scored(brier, told, happened)


def calibration_error(told: Sequence[float], happened: Sequence[bool]) -> Measured:
    """Give the expected calibration error with the bounds of a bootstrap over events."""
    return _scored(expected_calibration_error, told, happened)


def _scored(
    measure: Callable[[FloatArray, MaskArray], float], told: Sequence[float], happened: Sequence[bool]
) -> Measured:
    if not told:
        return NOTHING
    said, was = np.array(told, dtype=np.float64), np.array(happened, dtype=np.bool_)
    rows = np.random.default_rng(0).integers(len(said), size=(_DRAWS, len(said)))
    return _bounded(measure(said, was), np.array([measure(said[drawn], was[drawn]) for drawn in rows]))


def _bounded(value: float, drawn: FloatArray) -> Measured:
    low, high = middle_share(drawn) or (None, None)
    return Measured(value=value, low=low, high=high)
