"""Chance by number: the same keys give the same draw, whatever else is drawn and in which order.

So a machine is the same alone and among hundreds, and a load can be asked for at any moment. The mixing function is
SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
"""

import numpy as np
import numpy.typing as npt

from telemetry.frames import FloatArray

# Places in a table, and numbers that draws are keyed by.
PlaceArray = npt.NDArray[np.int64]
Key = int | PlaceArray
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PARTS, _PART_BITS = 4, 16
# Variance of a sum of four uniform parts is a third.
_TO_SD = np.sqrt(3.0)


def _mixed(*keys: Key) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        state = np.zeros(1, dtype=np.uint64)
        for key in keys:
            state = (state ^ np.asarray(key).astype(np.uint64)) + _GOLDEN
            state = (state ^ (state >> np.uint64(30))) * _FIRST
            state = (state ^ (state >> np.uint64(27))) * _SECOND
            state = state ^ (state >> np.uint64(31))
    return state


def uniform(*keys: Key) -> FloatArray:
    """Return draws from 0 to 1, of the shape that the keys broadcast to."""
    return np.asarray((_mixed(*keys) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def normal(*keys: Key) -> FloatArray:
    """Return draws of mean 0 and variance 1, nearly normal: a sum of four, 3.46 at most, as noise of a meter is."""
    bits = _mixed(*keys)
    total = np.zeros(bits.shape)
    for part in range(_PARTS):
        total += (bits >> np.uint64(part * _PART_BITS)) & np.uint64(2**_PART_BITS - 1)
    return np.asarray((total / (2**_PART_BITS - 1) - 0.5 * _PARTS) * _TO_SD, dtype=np.float64)


def wander(time_s: FloatArray, period_s: FloatArray, seed: PlaceArray) -> FloatArray:
    """Return how far something has drifted, -1 to 1, at times that broadcast with its period."""
    slow = np.sin(2.0 * np.pi * (time_s / period_s + uniform(seed, 1)))
    quick = np.sin(2.0 * np.pi * (time_s / (0.37 * period_s) + uniform(seed, 2)))
    return np.asarray(0.65 * slow + 0.35 * quick, dtype=np.float64)
