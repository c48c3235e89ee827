"""Error of a slope from the steps of its meters.

A voltage in steps q lies off by a sawtooth of the voltage itself. Where in a step the open-circuit voltage lies is
unknown, so each harmonic of the sawtooth has a random phase: the slope errs by the sum of its weights, turned by that
phase at each current. Noise before the steps wears harmonic m down by exp(-2 (pi m s / q)^2) (Widrow and Kollar,
Quantization Noise, 2008, chapter 19). Levels many steps apart, or a load that takes all values, average the error out.
"""

import math

import numpy as np

from telemetry.frames import FloatArray

_HARMONICS = np.arange(1, 9)
_BINS = 1024
# heuristic: the slope that turns the phases is known within a fifth, so levels many steps apart have any phase.
_SLOPES: FloatArray = np.linspace(0.8, 1.2, 9)
_PERIODS: FloatArray = np.linspace(0.98, 1.02, 5)
# heuristic: currents within a tenth of a step of the voltage are the same, and ten such pairs show the noise.
_SAME_PART = 0.1
_LEAST_PAIRS = 10
# Of noise s far below a step q the readings of neighbours differ with a variance of 0.56 s q on average over the step;
# above it of s^2 + q^2/12 (computed from the normal distribution).
_SMALL_NOISE = 0.56
_SMALL_PART = 0.25
# heuristic: the load itself moves within a level and counts as noise in part.
_NOISE_PART = 0.8


def step_variance(volts: FloatArray, amps: FloatArray, *, slope_ohm: float, step_v: float, step_a: float) -> float:
    """Return the variance of a slope from the steps of voltage and current; both about their means, ``(n,)``."""
    spread = float(amps @ amps)
    low_a, high_a = float(amps.min()), float(amps.max())
    if spread <= 0.0 or slope_ohm <= 0.0 or high_a <= low_a:
        return 0.0
    bins = min(_BINS, len(amps))
    width_a = (high_a - low_a) / bins
    place = np.minimum(((amps - low_a) / width_a).astype(np.intp), bins - 1)
    weights = np.asarray(np.bincount(place, weights=amps / spread, minlength=bins), dtype=np.float64)
    level_a = np.asarray(low_a + (np.arange(bins) + 0.5) * width_a, dtype=np.float64)
    total = 0.0
    if step_v > 0.0:
        noise_v = _noise_v(volts, amps, step_v=step_v, same_a=_SAME_PART * step_v / slope_ohm)
        turns = level_a * slope_ohm / step_v
        total += _sawtooth(weights, turns, _SLOPES, noise=_NOISE_PART * noise_v / step_v) * step_v**2
    if step_a > 0.0:
        total += _sawtooth(weights, level_a / step_a, _PERIODS, noise=0.0) * (slope_ohm * step_a) ** 2
    return total


def _sawtooth(weights: FloatArray, turns: FloatArray, scales: FloatArray, *, noise: float) -> float:
    """Return the variance of the weighted sum of a sawtooth of height 1; `noise` is in heights."""
    phases = 2.0j * math.pi * scales[:, np.newaxis, np.newaxis] * _HARMONICS[:, np.newaxis] * turns
    sums = np.abs((weights * np.exp(phases)).sum(axis=2)) ** 2
    height = np.exp(-4.0 * (math.pi * _HARMONICS * noise) ** 2) / (2.0 * (math.pi * _HARMONICS) ** 2)
    return float((sums.mean(axis=0) * height).sum())


def _noise_v(volts: FloatArray, amps: FloatArray, *, step_v: float, same_a: float) -> float:
    """Return the noise before the steps, from neighbours at one current; 0.0 where too few are."""
    same = np.abs(np.diff(amps)) < same_a
    if int(same.sum()) < _LEAST_PAIRS:
        return 0.0
    variance = float(np.mean(np.diff(volts)[same] ** 2)) / 2.0
    if variance < _SMALL_PART * step_v**2:
        return variance / (_SMALL_NOISE * step_v)
    return math.sqrt(variance - step_v**2 / 12.0)
