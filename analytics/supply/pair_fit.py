"""Slope of a logged pair, by what its samples allow, with an error that drift and steps of the meters do not fool.

- Voltage and current of one moment: least squares.
- A skew of less than a sample, where the samples resolve the load: the slopes of a sample and its neighbour together.
- The same where they do not: means of a load that jumps have the spread of the load whenever they were taken, so the
  spread of the voltage over that of the current. Of picks most belong together: `mixed_pairs`.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from analytics.supply.mixed_pairs import mixed_pairs
from analytics.supply.sampling import Sampled, memory_of
from analytics.supply.spectral_error import weighted_error
from analytics.supply.step_error import step_variance
from analytics.supply.time_skew import MIN_PAIRS, line_of
from physics.constants import MAD_TO_SD
from physics.thevenin import INDEPENDENT_AFTER_S
from telemetry.frames import FloatArray

# heuristic: a load whose neighbouring currents correlate by more is resolved: a straight line between two samples
# misses 1 % of it at most. In a log of 200 Hz and more, whose neighbours take a skew of less than 5 ms, a ninth.
_RESOLVED, _FAST_RESOLVED = 0.97, 0.8
_FAST_S = 0.005
_SLOW_S = 0.05
# heuristic: a neighbour counts at three standard errors, and from 3 % of the slope on; without a lag only where it
# moves the slope by 2 %, the promise for a clean recording.
_SURE_F = 9.0
_LEAST_SHARE = 0.03
_HARMLESS_RATIO = 0.02
_MOST_ALIKE = 1e8
# heuristic: e^4 times as likely, and one pair in a hundred; with more than two in five no pair shows where it belongs.
_SURE_GAIN = 8.0
_LEAST_PART, _MOST_PART = 0.01, 0.4
# heuristic: noise is at most a tenth of the variance of means that follow a load.
_MOST_NOISE = 0.1
# heuristic: a quarter of what picks of an unresolved load leave unexplained may be a skew.
_DOUBT_PART = 0.25
_DOUBTED_MEMORY = 0.9
# heuristic: twenty blocks show how far the spreads wander together.
_BLOCKS = 20
_SPREAD_START = 0.95
_WIDER = 1.5


class Method(StrEnum):
    """Way in which a resistance was found."""

    LINE = "line"
    NEIGHBOURS = "neighbours"
    SPREADS = "spreads"
    MIXED = "mixed pairs"
    DIFFERENCES = "differences"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Centred:
    """Pairs about the means of their windows, shape ``(n,)``; steps of the meters are 0.0 where they have none.

    `lag` is by how many samples the voltage was moved, `spent` the number of means that were taken off.
    """

    volts: FloatArray
    amps: FloatArray
    period_s: float
    sampled: Sampled
    lag: int
    spent: int
    step_v: float
    step_a: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFit:
    """Slope with its standard error and degrees of freedom, about means.

    `below_ohm` and `above_ohm` are how much it may be off for what the samples do not show. `memory` is the correlation
    of neighbouring currents.
    """

    method: Method
    slope_ohm: float
    slope_sd_ohm: float
    degrees: float
    correlation: float
    memory: float
    below_ohm: float = 0.0
    above_ohm: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Neighbours:
    """Slopes of each sample's own current and of one neighbour's."""

    slopes_ohm: FloatArray
    errors: FloatArray
    weights: FloatArray
    f_ratio: float

    @property
    def slope_ohm(self) -> float:
        return float(self.slopes_ohm.sum())

    @property
    def share(self) -> float:
        return float(self.slopes_ohm[1]) / self.slope_ohm if self.slope_ohm > 0.0 else 0.0


def fit_pair(pair: Centred) -> PairFit:
    """Return the slope of a pair; both columns move."""
    line = line_of(pair.volts, pair.amps)
    near = _neighbours(pair) if len(pair.volts) >= MIN_PAIRS else None
    method, memory = Method.LINE, memory_of(pair.amps)
    if near is not None:
        method = _method(pair, near, memory, line_ohm=line.slope_ohm)
    if method is Method.NEIGHBOURS and near is not None:
        found = _with_error(pair, near.slope_ohm, near.errors, near.weights, spent=pair.spent + 2)
    elif method is Method.SPREADS and near is not None:
        found = _spreads(pair, near.errors)
    else:
        found = _line(pair, line.slope_ohm)
    found = replace(found, method=method, correlation=line.correlation, memory=memory)
    if method is Method.LINE and pair.sampled is not Sampled.MEANS:
        found = _of_picks(pair, found, near)
    steps = step_variance(pair.volts, pair.amps, slope_ohm=found.slope_ohm, step_v=pair.step_v, step_a=pair.step_a)
    return replace(found, slope_sd_ohm=math.hypot(found.slope_sd_ohm, math.sqrt(steps)))


def _method(pair: Centred, near: _Neighbours, memory: float, *, line_ohm: float) -> Method:
    resolved = memory > _RESOLVED and pair.period_s < _SLOW_S
    fast = memory > _FAST_RESOLVED and pair.period_s < _FAST_S
    if pair.lag and (resolved or fast):
        return Method.NEIGHBOURS
    sure = near.f_ratio > _SURE_F
    slow = pair.lag != 0 or pair.period_s > INDEPENDENT_AFTER_S
    if pair.sampled is not Sampled.PICKS and sure and near.share > _LEAST_SHARE and slow:
        return Method.SPREADS
    harmful = line_ohm <= 0.0 or abs(near.slope_ohm / line_ohm - 1.0) > _HARMLESS_RATIO
    return Method.NEIGHBOURS if resolved and sure and harmful else Method.LINE


def _neighbours(pair: Centred) -> _Neighbours | None:
    """Return the better of the fits with the sample before and with the one after; None where neither adds to it."""
    volts = pair.volts[1:-1] - pair.volts[1:-1].mean()
    own, before, after = (column - column.mean() for column in (pair.amps[1:-1], pair.amps[:-2], pair.amps[2:]))
    own_aa = float(own @ own)
    if own_aa <= 0.0:
        return None
    alone = volts - (float(own @ volts) / own_aa) * own
    found: list[_Neighbours] = []
    for other in (before, after):
        amps = np.stack([own, other], axis=1)
        squares = amps.T @ amps
        if np.linalg.cond(squares) > _MOST_ALIKE:
            continue
        inverse = np.linalg.inv(squares)
        slopes = -(inverse @ (amps.T @ volts))
        errors = volts + amps @ slopes
        left = float(errors @ errors) / max(len(volts) - 3, 1)
        if slopes[1] > 0.0 and left > 0.0:
            gain = (float(alone @ alone) - float(errors @ errors)) / left
            found.append(
                _Neighbours(slopes_ohm=slopes, errors=errors, weights=-(amps @ inverse.sum(axis=1)), f_ratio=gain)
            )
    return max(found, key=lambda one: one.f_ratio, default=None)


def _line(pair: Centred, slope_ohm: float) -> PairFit:
    squares = float(pair.amps @ pair.amps)
    errors = _unexplained(pair) if pair.period_s < INDEPENDENT_AFTER_S else pair.volts + slope_ohm * pair.amps
    return _with_error(pair, slope_ohm, errors, pair.amps / squares, spent=pair.spent + 1)


def _with_error(pair: Centred, slope_ohm: float, errors: FloatArray, weights: FloatArray, *, spent: int) -> PairFit:
    variance, degrees = weighted_error(errors, weights, spent=spent)
    return PairFit(
        method=Method.LINE,
        slope_ohm=slope_ohm,
        slope_sd_ohm=math.sqrt(variance),
        degrees=degrees,
        correlation=0.0,
        memory=memory_of(pair.amps),
    )


# heuristic: means of the current over 3, 9, 27 ... samples before, up to 50 ms, take what the supply does within 20 ms
# of a step; what is left is noise.
_GROWTH = 3
_TRANSIENT_S = 0.05
_LEAST_SAMPLES = 200
_RIDGE = 1e-9


def _unexplained(pair: Centred) -> FloatArray:
    """Return what is left of the voltage without the current and the milliseconds before it: its noise."""
    amps, size = pair.amps, len(pair.amps)
    columns, length = [amps, np.append(amps[1:], amps[-1:])], 1
    if size >= _LEAST_SAMPLES:
        sums, ends = np.concatenate(([0.0], np.cumsum(amps))), np.arange(size)
        while length * pair.period_s <= _TRANSIENT_S and length < size // 8:
            starts = np.maximum(ends - length, 0)
            columns.append((sums[ends] - sums[starts]) / np.maximum(ends - starts, 1))
            length *= _GROWTH
    table = np.stack(columns, axis=1)
    table -= table.mean(axis=0)
    squares = table.T @ table
    squares += _RIDGE * float(np.trace(squares)) * np.eye(len(squares))
    return np.asarray(pair.volts - table @ np.linalg.solve(squares, table.T @ pair.volts), dtype=np.float64)


def _spreads(pair: Centred, errors: FloatArray) -> PairFit:
    """Return the spread of the voltage over that of the current, less the noise of the voltage."""
    vv, aa = float(np.mean(pair.volts**2)), float(np.mean(pair.amps**2))
    noise_v = MAD_TO_SD * float(np.median(np.abs(errors - np.median(errors))))
    noise_vv = min(max(noise_v**2, pair.step_v**2 / 12.0), _MOST_NOISE * vv)
    slope_ohm = math.sqrt((vv - noise_vv) / aa)
    wander = slope_ohm / 2.0 * (pair.volts**2 / vv - pair.amps**2 / aa)
    length = max(len(wander) // _BLOCKS, 1)
    blocks = wander[: len(wander) // length * length].reshape(-1, length).mean(axis=1)
    variance = max(float(wander.var()) / len(wander), float(blocks.var(ddof=1)) / len(blocks))
    found = _with_error(pair, slope_ohm, errors, np.zeros(len(errors)), spent=0)
    return replace(
        found,
        slope_sd_ohm=math.sqrt(variance),
        degrees=float(min(len(blocks) - 1, _BLOCKS)),
        # Picks have more noise than means.
        below_ohm=0.0 if pair.sampled is Sampled.MEANS else slope_ohm - math.sqrt((1.0 - _MOST_NOISE) * vv / aa),
        above_ohm=math.sqrt(vv / aa) - slope_ohm,
    )


def _of_picks(pair: Centred, found: PairFit, near: _Neighbours | None) -> PairFit:
    """Return the slope of pairs that belong together, where that of all fits far worse.

    Where too few do, it is the spreads that count.
    """
    if len(pair.volts) < MIN_PAIRS or found.memory > _RESOLVED:
        return found
    if pair.period_s > _FAST_S and (pair.lag or pair.period_s > INDEPENDENT_AFTER_S):
        start_ohm = _SPREAD_START * math.sqrt(float(pair.volts @ pair.volts) / float(pair.amps @ pair.amps))
        mixed = mixed_pairs(pair.volts, pair.amps, slope_ohm=start_ohm, step_v=pair.step_v)
        if mixed.gain > _SURE_GAIN and mixed.part > _MOST_PART and near is not None:
            spreads = _spreads(pair, near.errors)
            return replace(spreads, method=Method.SPREADS, correlation=found.correlation, memory=found.memory)
        if mixed.gain > _SURE_GAIN and mixed.part > _LEAST_PART:
            # Steps above the noise are no normal errors.
            wider = _WIDER if pair.step_v > mixed.noise_v else 1.0
            return replace(
                found,
                method=Method.MIXED,
                slope_ohm=mixed.slope_ohm,
                slope_sd_ohm=mixed.slope_sd_ohm * wider,
                degrees=float(len(pair.volts) - 4),
            )
    if found.memory < _DOUBTED_MEMORY and found.correlation < 0.0:
        return replace(found, above_ohm=_DOUBT_PART * found.slope_ohm * (1.0 / -found.correlation - 1.0))
    return found
