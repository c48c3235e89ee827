"""Error of a slope from the steps of its meter, as the sums of a stream show it.

A value in steps q lies off by up to half a step, and stays off by as much while the load stays at its levels: more
rows of one job do not average it out, and another job is off by another part. Two levels that are ``n + f`` steps apart
show ``n`` or ``n + 1`` of them, by where they lie: the difference errs by ``sqrt(f (1 - f)) q``, at most half a step.
Noise s before the steps wears that down by ``exp(-2 (pi s / q)^2)`` (Widrow and Kollar, Quantization Noise, 2008,
chapter 19): a meter with noise as large as its step has no such error.
"""

import math

import numpy as np

from telemetry.frames import FloatArray

# The most of sqrt(f (1 - f)), see above.
_DIFFERENCE = 0.5
# Scatter of a level half way between two steps, which no noise made.
_MOST_ROUNDING = 0.25


def slope_error(step: FloatArray, spread: FloatArray, scatter: FloatArray) -> FloatArray:
    """Return the standard deviation of slopes from the `step` of the meter, 0 where that is not known.

    `spread` is the standard deviation of what the slope goes along, half of what it moves by under a load with two
    levels, `scatter` that of the meter's values about the line.
    """
    known = np.where(step > 0.0, step, np.nan)
    noise_squares = np.maximum(scatter**2 / known**2 - _MOST_ROUNDING, 0.0)
    left = np.exp(-2.0 * math.pi**2 * noise_squares)
    error = left * _DIFFERENCE * known / np.where(spread > 0.0, 2.0 * spread, np.nan)
    return np.asarray(np.nan_to_num(error), dtype=np.float64)
