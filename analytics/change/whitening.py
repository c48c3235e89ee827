"""Errors of a first-order autoregression, for methods whose false-alarm rates hold for white noise alone.

A CUSUM with an allowance of 0.5 and a limit of 5 gives a false alarm every 931 values of white noise, and every 79
where neighbours correlate by 0.9. (Alwan and Roberts, "Time-series modeling for statistical process control", Journal
of Business and Economic Statistics 6(1), 1988, chart the errors of a fitted model for that reason.)
"""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

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
