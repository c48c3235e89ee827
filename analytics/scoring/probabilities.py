"""Whether probabilities that were told came true as often as they said."""

import numpy as np

from telemetry.frames import FloatArray, MaskArray

N_BINS = 10  # Guo et al., "On calibration of modern neural networks", ICML 2017, use 10 to 20


def brier(told: FloatArray, happened: MaskArray) -> float:
    """Return the mean squared distance of probabilities from what happened (Brier 1950); NaN without any."""
    known = np.isfinite(told)
    return float(np.mean((told[known] - happened[known]) ** 2)) if known.any() else float("nan")


def expected_calibration_error(told: FloatArray, happened: MaskArray, *, n_bins: int = N_BINS) -> float:
    """Return the mean distance of told from seen shares over bins of equal width, by their weight (Naeini et al. 2015).

    0 is perfect; NaN without any probability.
    """
    known = np.isfinite(told)
    if not known.any():
        return float("nan")
    told, seen = told[known], happened[known].astype(np.float64)
    place = np.minimum((told * n_bins).astype(np.int64), n_bins - 1)
    off = np.bincount(place, weights=told - seen, minlength=n_bins)
    return float(np.abs(off).sum() / told.size)
