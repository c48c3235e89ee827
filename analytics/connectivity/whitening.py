"""Residuals without memory: what a series does beyond its own past.

Two series that each remember their past correlate by chance far more often than white ones would: a test that takes
them for white finds links that are not there. So each is first reduced to what an autoregression of itself leaves.
"""

import numpy as np

from telemetry.frames import FloatArray

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
