"""Exact bounds of counts and shares, by bisection of the distribution."""

import math
from collections.abc import Callable

import numpy as np

from telemetry.frames import FloatArray, TimeArray

HALVINGS = 80  # of an interval of counts or shares: below the last digit of a float


def rate_bounds(count: int, exposure: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return two-sided bounds of a rate from `count` events in `exposure`; for no event in 1 they are 0 and 3.7.

    Exact for a Poisson count (Garwood, Biometrika 28(3/4), 1936). ValueError without exposure.
    """
    if exposure <= 0 or count < 0:
        raise ValueError("a rate needs an exposure above zero and a count of zero or more")
    tail = (1 - confidence) / 2
    top = 10.0 * count + 100.0
    low = 0.0 if count == 0 else _solve(lambda mean: 1 - _poisson_up_to(count - 1, mean), tail, top)
    high = _solve(lambda mean: 1 - _poisson_up_to(count, mean), 1 - tail, top)
    return low / exposure, high / exposure


def count_dispersion(places: TimeArray, n_rows: int, *, block_rows: int) -> float:
    """Return the variance over the mean of events counted in blocks of rows, 1 at least: 1 where they come alone.

    `places` ``(n_events,)`` are their rows of `n_rows`. (Quasi-Poisson: McCullagh and Nelder, "Generalized Linear
    Models", 2nd edition, 1989, section 6.2.3.)
    """
    counts = np.bincount(places // block_rows, minlength=max(n_rows // block_rows, 1))
    mean = float(counts.mean())
    return max(float(counts.var()) / mean, 1.0) if mean > 0 else 1.0


def clustered_rate_bounds(
    places: TimeArray, n_rows: int, *, block_rows: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return two-sided bounds of the rate per row of events at rows `places`, which may come in clusters.

    Those of a Poisson count that holds as much evidence: events and rows over the dispersion. Rounded outwards.
    """
    effective = count_dispersion(places, n_rows, block_rows=block_rows)
    fewer = len(places) / effective
    low, _ = rate_bounds(math.floor(fewer), n_rows / effective, confidence=confidence)
    _, high = rate_bounds(math.ceil(fewer), n_rows / effective, confidence=confidence)
    return low, high


def share_bounds(count: int, total: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return two-sided bounds of a share from `count` of `total` (Clopper and Pearson, Biometrika 26(4), 1934)."""
    if not 0 <= count <= total or total == 0:
        raise ValueError("a share needs a total above zero and a count within it")
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else _solve(lambda share: 1 - _binomial_up_to(count - 1, total, share), tail, 1.0)
    high = 1.0 if count == total else _solve(lambda share: 1 - _binomial_up_to(count, total, share), 1 - tail, 1.0)
    return low, high


def block_draws(n_rows: int, *, block_rows: int, draws: int, rng: np.random.Generator) -> TimeArray:
    """Draw row numbers in blocks that wrap at the end ``(draws, n_rows)``, because neighbours are correlated.

    A block should hold many times what neighbours share. (Politis and Romano, "A circular block-resampling procedure
    for stationary data", 1992.)
    """
    starts = rng.integers(0, n_rows, (draws, -(-n_rows // block_rows)))
    rows = (starts[:, :, None] + np.arange(block_rows)).reshape(draws, -1)[:, :n_rows]
    return np.asarray(rows % n_rows, dtype=np.int64)


def middle_share(drawn: FloatArray, *, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the bounds that hold the middle `confidence` of the draws; None without a draw that is a number."""
    drawn = drawn[np.isfinite(drawn)]
    if not drawn.size:
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _solve(rising: Callable[[float], float], wanted: float, top: float) -> float:
    low, high = 0.0, top
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _poisson_up_to(count: int, mean: float) -> float:
    if mean <= 0:
        return 1.0
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1))


def _binomial_up_to(count: int, total: int, share: float) -> float:
    if share <= 0 or share >= 1:
        return 1.0 if share <= 0 or count >= total else 0.0
    ways = math.lgamma(total + 1)
    return math.fsum(
        math.exp(
            ways
            - math.lgamma(k + 1)
            - math.lgamma(total - k + 1)
            + k * math.log(share)
            + (total - k) * math.log1p(-share)
        )
        for k in range(count + 1)
    )
