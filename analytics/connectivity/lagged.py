"""Lagged cross-correlation: which series follow which, with a test calibrated on the series themselves.

Two series that each remember their past correlate by chance far more often than white ones would, so each is first
reduced to what an autoregression of itself leaves. A pair is tested only along edges that the topology allows, or all
pairs where the caller chooses so. The strongest correlation over the lags is compared with what the same two series
give when one is shifted round by a random distance, which keeps each one's own shape and destroys what links them. Of
many pairs some look linked by chance: Benjamini and Hochberg's procedure keeps the expected share of such among those
reported at the requested rate (J. R. Statist. Soc. B 57, 1995).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telemetry.frames import FloatArray, MaskArray

# heuristic: samples an autoregression must have for each of its coefficients.
_SAMPLES_PER_COEFFICIENT = 20


def whitened(series: FloatArray, *, order: int = 1) -> FloatArray:
    """Return the residuals of an AR(`order`) fit of each series, scaled to a standard deviation of one.

    Parameters
    ----------
    series
        Shape ``(n_times, n_series)``. NaN is a gap: it takes part in nothing, and the residuals that need it are NaN.

    Returns
    -------
    Same shape; NaN in the first `order` rows, and throughout where a series is constant or too short to fit. The
    coefficients are least squares; cost O(n_times * order^2) a series.
    """
    if order < 1:
        raise ValueError(f"order {order}, expected 1 or more")
    residuals = np.full(series.shape, np.nan)
    for place in range(series.shape[1]):
        residuals[:, place] = _residuals(series[:, place], order)
    return residuals


def _residuals(values: FloatArray, order: int) -> FloatArray:
    found = np.full(len(values), np.nan)
    if len(values) <= order:
        return found
    centred = values - _mean(values)
    past = np.stack([centred[order - lag : len(values) - lag] for lag in range(1, order + 1)], axis=1)
    now = centred[order:]
    known = np.isfinite(now) & np.isfinite(past).all(axis=1)
    if known.sum() < _SAMPLES_PER_COEFFICIENT * order:
        return found
    # Nothing is left of a constant series but rounding, and rounding correlates with rounding.
    scale = np.abs(values[np.isfinite(values)]).max()
    if float(np.std(now[known])) <= 1e-9 * max(float(scale), 1e-300):
        return found
    coefficients, *_ = np.linalg.lstsq(past[known], now[known], rcond=None)
    left = now - past @ coefficients
    spread = float(np.std(left[known]))
    if spread > 0:
        found[order:] = np.where(known, (left - left[known].mean()) / spread, np.nan)
    return found


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


# heuristic: a second's samples to 10 s back at 1 Hz; half a second to five at 10 to 100 Hz.
_MAX_LAG_SLOW, _MAX_LAG_FAST = 10, 50
_FAST_HZ = 10.0
# heuristic: with fewer pairs of samples a correlation means nothing.
_MIN_SAMPLES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLink:
    """Relation of one series to another that leads it.

    Parameters
    ----------
    source, target
        Their places.
    lag
        Rows by which the target comes later; below 0 it comes first.
    correlation
        Of the residuals at that lag, the strongest over all lags by its size.
    p_value
        How often chance links them as strongly.
    is_significant
        True if it is significant at the requested false discovery rate.
    """

    source: int
    target: int
    lag: int
    correlation: float
    p_value: float
    is_significant: bool


def max_lag(rate_hz: float) -> int:
    """Return how many rows to look either way at a sampling rate."""
    return _MAX_LAG_FAST if rate_hz >= _FAST_HZ else _MAX_LAG_SLOW


def lag_links(
    series: FloatArray,
    pairs: Sequence[tuple[int, int]],
    *,
    lags: int,
    seed: int,
    order: int = 1,
    surrogates: int = 200,
    discovery_rate: float = 0.05,
) -> tuple[LagLink, ...]:
    """Return the links of the pairs that can be judged, each with what chance would give.

    Parameters
    ----------
    series
        Shape ``(n_times, n_series)``, evenly sampled; NaN is a gap.
    pairs
        Places of source and target.
    seed
        Of the shifts: the same seed gives the same answer.
    order
        Of the autoregression that takes each series' memory away before.
    surrogates
        Shifts to compare with, at least; more for many pairs, so that one link among them can be significant.

    Notes
    -----
    Cost: one FFT of the series and `surrogates` table look-ups a pair, because a circular shift of one series only
    shifts the whole circular correlation.
    """
    residuals = whitened(series, order=order)
    usable: MaskArray = np.sum(np.isfinite(residuals), axis=0) >= max(_MIN_SAMPLES, 4 * lags)
    wanted = max(surrogates, int(np.ceil(2 * len(pairs) / discovery_rate)))
    shifts = _shifts(len(series), lags=lags, wanted=wanted, seed=seed)
    if len(shifts) < surrogates:
        return ()
    spectra = np.fft.rfft(np.nan_to_num(residuals, nan=0.0), axis=0)
    weights = np.fft.rfft(np.isfinite(residuals).astype(np.float64), axis=0)
    found: list[tuple[int, int, int, float, float]] = []
    window = np.arange(-lags, lags + 1)
    for source, target in pairs:
        if not (usable[source] and usable[target]):
            continue
        circular = _circular(spectra[:, source], spectra[:, target], n=len(series))
        counts = np.maximum(_circular(weights[:, source], weights[:, target], n=len(series)), 1.0)
        strength = circular / counts
        own = strength[window % len(series)]
        best = int(np.argmax(np.abs(own)))
        chance = strength[(shifts[:, np.newaxis] + window) % len(series)]
        found.append((source, target, int(window[best]), float(own[best]), _p_value(abs(float(own[best])), chance)))
    kept = discoveries([row[-1] for row in found], rate=discovery_rate)
    return tuple(
        LagLink(source=source, target=target, lag=lag, correlation=strength, p_value=p_value, is_significant=bool(keep))
        for (source, target, lag, strength, p_value), keep in zip(found, kept, strict=True)
    )


def discoveries(p_values: Sequence[float], *, rate: float) -> MaskArray:
    """Return which hypotheses are significant at a false discovery rate, by Benjamini and Hochberg's procedure."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    below = values[order] <= rate * np.arange(1, len(values) + 1) / max(len(values), 1)
    kept = np.zeros(len(values), dtype=np.bool_)
    if below.any():
        kept[order[: int(np.flatnonzero(below)[-1]) + 1]] = True
    return kept


def _circular(source: npt.NDArray[np.complex128], target: npt.NDArray[np.complex128], *, n: int) -> FloatArray:
    """Return the sums over time of source now times target `lag` later, by lag, from the spectra."""
    sums: FloatArray = np.fft.irfft(np.conj(source) * target, n=n)
    return sums


def _p_value(strength: float, chance: FloatArray) -> float:
    """Return how often shifted pairs, shape ``(n_shifts, n_lags)``, are linked so strongly at any lag.

    The larger of two answers. Counting them is exact where there is much to count; beyond that, shifts nearer to each
    other than the lags reach see the same values, so that a series of a thousand rows has some fifty of its own and no
    count resolves one in two hundred. There the normal tail with the spread of the shifted pairs is taken, which sums
    over hundreds of residuals follow.
    """
    counted = (1.0 + float((np.abs(chance).max(axis=1) >= strength).sum())) / (len(chance) + 1.0)
    spread = float(np.sqrt(np.mean(chance**2)))
    at_one_lag = math.erfc(strength / (math.sqrt(2.0) * spread)) if spread > 0 else 1.0
    at_any_lag = -math.expm1(chance.shape[1] * math.log1p(-min(at_one_lag, 1.0 - 1e-12)))
    return max(counted, at_any_lag)


def _shifts(n_times: int, *, lags: int, wanted: int, seed: int) -> npt.NDArray[np.intp]:
    """Return shift distances so far apart that their lags do not overlap; as many as there is room for."""
    low, high = 2 * lags + 1, n_times - 2 * lags - 1
    if high <= low:
        return np.empty(0, dtype=np.intp)
    return np.random.default_rng(seed).choice(np.arange(low, high), size=min(wanted, high - low), replace=False)
