"""Slope of slow picks of which some voltages belong to another moment than their current.

A load jumps between levels. A voltage that was picked 50 ms later belongs to the same level mostly, else to another
one: ``V = E - R J + e``, with J the current of the pair or, with a probability p, any of the load's currents. The
maximum of the likelihood (expectation and maximisation, Dempster and others, 1977) gives both R and p, and at p = 0 it
is least squares.
"""

import math
from dataclasses import dataclass

import numpy as np

from physics.constants import MAD_TO_SD
from telemetry.frames import FloatArray

# heuristic: forty levels are as good as all, and more than some thousand pairs show p no better.
_LEVELS = 40
_MOST_PAIRS = 4000
_ROUNDS = 60
_LEAST_GAIN = 1e-4
_FIRST_PART = 0.2
_PART_RANGE = (1e-4, 0.9)
# Steps of the numerical derivatives of the likelihood: of the open voltage and the logarithm of the noise as shares of
# the noise, of the slope as a share of it, of the logarithm of the odds.
_STEPS = (0.01, 0.003, 0.01, 0.02)
_TINY = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedPairs:
    """Slope, its standard error, the share of pairs that do not belong together, and how much better that fits.

    `gain` is twice the logarithm of the likelihood over that of least squares.
    """

    slope_ohm: float
    slope_sd_ohm: float
    part: float
    noise_v: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Load:
    """Pairs about their means, and the levels of the load with the share of each."""

    volts: FloatArray
    amps: FloatArray
    level_a: FloatArray
    share: FloatArray
    least_v: float

    def densities(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the densities of each voltage: by its own current ``(n,)``, and by each level ``(n, n_levels)``."""
        open_v, slope_ohm, log_noise, log_odds = point
        noise_v, part = math.exp(log_noise), 1.0 / (1.0 + math.exp(-log_odds))
        off = (self.volts - open_v + slope_ohm * self.amps) / noise_v
        others = (self.volts[:, np.newaxis] - open_v + slope_ohm * self.level_a) / noise_v
        own = (1.0 - part) * np.exp(-0.5 * off**2)
        return own, part * self.share * np.exp(-0.5 * others**2)

    def log_likelihoods(self, point: FloatArray) -> FloatArray:
        """Return the logarithm of the likelihood of each pair, without the constant of the normal distribution."""
        own, others = self.densities(point)
        return np.asarray(np.log(own + others.sum(axis=1) + _TINY) - point[2], dtype=np.float64)

    def improved(self, point: FloatArray) -> FloatArray:
        """Return the point after one round."""
        own, others = self.densities(point)
        total = own + others.sum(axis=1) + _TINY
        own, others = own / total, others / total[:, np.newaxis]
        away = others.sum(axis=1)
        weight = float(own.sum() + away.sum())
        levels = others.sum(axis=0)
        mean_a = float(own @ self.amps + levels @ self.level_a) / weight
        mean_v = float((own + away) @ self.volts) / weight
        aa = float(own @ self.amps**2 + levels @ self.level_a**2) / weight - mean_a**2
        av = float(own @ (self.amps * self.volts) + self.volts @ (others @ self.level_a)) / weight - mean_a * mean_v
        slope_ohm = -av / aa
        open_v = mean_v + slope_ohm * mean_a
        off = self.volts - open_v + slope_ohm * self.amps
        elsewhere = self.volts[:, np.newaxis] - open_v + slope_ohm * self.level_a
        noise_v = math.sqrt(float(own @ off**2 + (others * elsewhere**2).sum()) / weight)
        part = min(max(float(away.mean()), _PART_RANGE[0]), _PART_RANGE[1])
        return np.array([open_v, slope_ohm, math.log(max(noise_v, self.least_v)), math.log(part / (1.0 - part))])


def mixed_pairs(volts: FloatArray, amps: FloatArray, *, slope_ohm: float, step_v: float) -> MixedPairs:
    """Return the fit of pairs of shape ``(n,)`` about their means; `slope_ohm` is where the search begins.

    `step_v` is the step of the voltage, 0.0 where it has none. Costs some 60 passes over ``(n, 40)``.
    """
    every = -(-len(volts) // _MOST_PAIRS)
    load = _load_of(volts[::every], amps[::every], least_v=max(math.sqrt(step_v**2 / 12.0), 1e-9))
    off = np.abs(load.volts + slope_ohm * load.amps)
    first_v = max(MAD_TO_SD * float(np.median(off)), load.least_v)
    point = np.array([0.0, slope_ohm, math.log(first_v), math.log(_FIRST_PART / (1.0 - _FIRST_PART))])
    before = -math.inf
    for _ in range(_ROUNDS):
        now = float(load.log_likelihoods(point).sum())
        if now - before < _LEAST_GAIN:
            break
        before, point = now, load.improved(point)
    return MixedPairs(
        slope_ohm=float(point[1]),
        slope_sd_ohm=_slope_sd(load, point) / math.sqrt(every),
        part=1.0 / (1.0 + math.exp(-float(point[3]))),
        noise_v=math.exp(float(point[2])),
        gain=2.0 * (float(load.log_likelihoods(point).sum()) - _of_one_line(load)),
    )


def _load_of(volts: FloatArray, amps: FloatArray, *, least_v: float) -> _Load:
    marks = np.unique(np.quantile(amps, (np.arange(_LEVELS) + 0.5) / _LEVELS))
    place = np.searchsorted((marks[1:] + marks[:-1]) / 2.0, amps)
    counts = np.bincount(place, minlength=len(marks)).astype(np.float64)
    level_a = np.bincount(place, weights=amps, minlength=len(marks)) / np.maximum(counts, 1.0)
    return _Load(volts=volts, amps=amps, level_a=level_a, share=counts / len(amps), least_v=least_v)


def _of_one_line(load: _Load) -> float:
    """Return the logarithm of the likelihood of least squares."""
    volts, amps = load.volts - load.volts.mean(), load.amps - load.amps.mean()
    left = volts - (float(amps @ volts) / float(amps @ amps)) * amps
    squares = float(left @ left)
    noise_v = max(math.sqrt(squares / len(volts)), load.least_v)
    return -0.5 * squares / noise_v**2 - len(volts) * math.log(noise_v)


def _slope_sd(load: _Load, point: FloatArray) -> float:
    """Return the standard error of the slope, from the products of the scores of the pairs."""
    steps = np.array([math.exp(float(point[2])) * _STEPS[0], abs(float(point[1])) * _STEPS[1], *_STEPS[2:]])
    scores = np.stack(
        [
            (load.log_likelihoods(point + step) - load.log_likelihoods(point - step)) / (2.0 * float(step.sum()))
            for step in np.diag(steps)
        ]
    )
    try:
        return math.sqrt(max(float(np.linalg.inv(scores @ scores.T)[1, 1]), 0.0))
    except np.linalg.LinAlgError:
        return math.inf
