"""Calibration of probabilities: predicted against observed frequencies."""

import numpy as np

from telemetry.frames import FloatArray, MaskArray

N_BINS = 10  # Guo et al., "On calibration of modern neural networks", ICML 2017, use 10 to 20


def brier(predicted: FloatArray, happened: MaskArray) -> float:
    """Return the mean squared distance of probabilities from what happened (Brier 1950); NaN without any."""
    known = np.isfinite(predicted)
    return float(np.mean((predicted[known] - happened[known]) ** 2)) if known.any() else float("nan")


def expected_calibration_error(predicted: FloatArray, happened: MaskArray, *, n_bins: int = N_BINS) -> float:
    """Return the mean distance of predicted and observed shares over equal bins, weighted (Naeini et al. 2015).

    0 is perfect; NaN without any probability.
    """
    known = np.isfinite(predicted)
    if not known.any():
        return float("nan")
    predicted, seen = predicted[known], happened[known].astype(np.float64)
    place = np.minimum((predicted * n_bins).astype(np.int64), n_bins - 1)
    off = np.bincount(place, weights=predicted - seen, minlength=n_bins)
    return float(np.abs(off).sum() / predicted.size)
