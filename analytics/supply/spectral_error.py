"""Variance of a weighted sum of errors that are no white noise.

The variance of ``sum w e`` is the sum over frequencies of the power of the weights times that of the errors. The power
of the errors is averaged over half octaves and made to fall with the frequency, as that of drift over noise does: for
powers of exponential distribution the isotonic means are its maximum likelihood (Barlow and others, Statistical
Inference under Order Restrictions, 1972).
"""

import numpy as np

from telemetry.frames import FloatArray

# heuristic: of fewer errors no spectrum is known, and they count as white.
LEAST_ERRORS = 40


def weighted_error(errors: FloatArray, weights: FloatArray, *, spent: int) -> tuple[float, float]:
    """Return the variance of ``weights @ errors`` and its degrees of freedom; both of shape ``(n,)``.

    `spent` is the number of parameters that were fitted to get the errors.
    """
    size = len(errors)
    left = max(size - spent, 1)
    if size < LEAST_ERRORS:
        return float(errors @ errors) / left * float(weights @ weights), float(left)
    length = 1 << (size - 1).bit_length()
    power = np.abs(np.fft.rfft(errors, length))[1:] ** 2 / size
    gain = 2.0 * np.abs(np.fft.rfft(weights, length))[1:] ** 2 / length
    starts = _half_octaves(len(power))
    counts = np.diff(np.append(starts, len(power))).astype(np.float64)
    # Zeros appended to a series make more frequencies, and no more evidence.
    evidence = counts * size / length
    pools = _falling(np.add.reduceat(power, starts) / counts, evidence)
    parts = np.add.reduceat(np.add.reduceat(gain, starts), pools[:, 0].astype(np.intp)) * pools[:, 1]
    variance = float(parts.sum())
    # The power of one frequency has two degrees of freedom, of which the fit takes one where the load is slow.
    spread = float((parts**2 / pools[:, 2]).sum())
    degrees = max(variance**2 / spread, 1.0) if spread > 0.0 else float(left)
    return variance * size / left, degrees


def _half_octaves(count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the first place of each half octave."""
    edges = np.round(2.0 ** np.arange(0.0, np.log2(count + 1), 0.5)).astype(np.intp) - 1
    return np.unique(edges)


def _falling(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the falling means that are nearest to the values: rows of first place, mean and weight of each pool."""
    rows: list[tuple[int, float, float]] = []
    for place, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        start, mean, total = place, value, weight
        while rows and rows[-1][1] < mean:
            start, before, more = rows.pop()
            mean, total = (mean * total + before * more) / (total + more), total + more
        rows.append((start, mean, total))
    return np.array(rows)
