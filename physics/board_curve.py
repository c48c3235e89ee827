"""Power of one board over its SM clock: what a table of parts assumes, corrected by the clock steps that were seen.

Above idle, the power of a load at a clock is ``P(x) - P_idle = L h(x)`` with ``x`` the clock over the highest clock,
``L`` the level of the load and ``h`` the shape of the board, which rises from its clock-independent part to 1 at
``x = 1``. The level changes with every job and cancels in a step of the clock under one load:
``ln((P_2 - P_idle) / (P_1 - P_idle)) = ln h(x_2) - ln h(x_1)``. So ``ln h`` at fixed clocks (`RATIOS`, linear between
them) is one Gaussian vector: mean and covariance begin with those of the part, and each step is one linear
measurement of it (Kalman 1960, doi 10.1115/1.3662552, without dynamics). Clocks that were not seen follow through the
covariance, and their bounds stay as wide as the table makes them until a step near them was seen.

The idle power is as uncertain as the table states until the board was seen idle. Steps do not estimate it; the curve
keeps how its mean would differ with another idle power (a consider state: Schmidt, Application of State-Space Methods
to Navigation Problems, Advances in Control Systems 3, 1966). So an error of the idle power cancels where one load was
seen at both clocks, and widens the bounds everywhere else.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from physics.constants import Z_LOWER
from physics.power_curve import HeightCurve, PowerCurve

FloatArray = npt.NDArray[np.float64]

# Clocks over the highest clock at which the shape is kept. heuristic: 5 % of the clock is 5 to 10 % of the power above
# idle, and a line between two such points is within 3 % of `PowerCurve` at its knee, far less elsewhere.
RATIOS: tuple[float, ...] = tuple(round(0.20 + 0.05 * place, 2) for place in range(17))
_GRID = np.array(RATIOS)
# The shape of a part follows `PowerCurve` only so far: this is the standard deviation of what it leaves out, half of
# the clocks below the highest. heuristic: three per cent; power models over the clock leave 2.4 to 4.6 % on four older
# parts (Guerreiro et al., Modeling and Decoupling the GPU Power Consumption for Cross-Domain DVFS, IEEE TPDS 2019).
_MODEL_SD = 0.03
# A step of the clock moves the temperature, and with it leakage of about 0.3 % per kelvin of the clock-independent
# part. heuristic: one per cent of the power above idle, ten kelvin.
STEP_SD = 0.01
# Innovations beyond this many standard deviations are other changes than the clock's, such as the next phase of a job:
# their weight falls (Huber 1964, doi 10.1214/aoms/1177703732).
_GATE = 2.5
# Power this close above idle shows no load. heuristic: below the 10 % by which a board's idle power moves with heat.
_LEAST_LOAD = 0.10
# Standard deviation of an idle power that was seen, relative. heuristic: half of those 10 %.
SEEN_IDLE_SD_RATIO = 0.05
# Least power above idle that another idle power leaves at a clock, over that of the load. heuristic: below any board's
# clock-independent part.
_LEAST_HEIGHT = 0.02
# Largest change of ``ln h`` per watt of idle power. heuristic: that of a load of one watt, which teaches nothing.
_SLOPE_MOST = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveShape:
    """Assumed curve of a part with the standard deviations of its parameters.

    Parameters
    ----------
    curve
        The curve assumed.
    static_sd_ratio
        Standard deviation of the ratio of clock-independent to switching power, relative.
    floor_sd, knee_sd
        Standard deviations of `PowerCurve.voltage_floor` and `PowerCurve.knee`.
    """

    curve: PowerCurve
    static_sd_ratio: float
    floor_sd: float
    knee_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerBounds:
    """Predicted power, or idle power, with its 95 % bounds (one-sided each)."""

    low_w: float
    power_w: float
    high_w: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoardCurve:
    """Curve of one board.

    Parameters
    ----------
    idle_w
        Power without a load.
    mean, covariance
        Of ``ln h`` at `RATIOS` if the idle power is `idle_w`, shapes ``(17,)`` and ``(17, 17)``; both are 0 at the
        highest clock.
    idle_sd_w
        Standard deviation of `idle_w`.
    mean_per_idle_w
        Change of `mean` per watt by which the idle power is higher, shape ``(17,)``; 0 until the first step.
    steps
        Clock steps that it was learnt from; 0 while it is the table's.
    given
        Curve that caps use as it is until the first step; None if they use the cautious bound from the start.
    """

    idle_w: float
    mean: FloatArray
    covariance: FloatArray
    idle_sd_w: float = 0.0
    mean_per_idle_w: FloatArray = field(default_factory=lambda: np.zeros(len(RATIOS)))
    steps: int = 0
    given: PowerCurve | None = None

    def with_step(
        self, from_ratio: float, to_ratio: float, ln_change: float, sd: float, *, ln_change_per_idle_w: float = 0.0
    ) -> "BoardCurve":
        """Return the curve after a step of the clock under one load.

        Parameters
        ----------
        ln_change, sd
            Change of the logarithm of the power above `idle_w`, and its standard error.
        ln_change_per_idle_w
            By how much that change would be larger per watt by which the idle power is higher.
        """
        weights = _weights(to_ratio) - _weights(from_ratio)
        gain = self.covariance @ weights
        spread = float(weights @ gain)
        error = ln_change - float(weights @ self.mean)
        error_per_idle_w = ln_change_per_idle_w - float(weights @ self.mean_per_idle_w)
        noise = sd**2 + STEP_SD**2
        doubt = spread + noise + (error_per_idle_w * self.idle_sd_w) ** 2
        off = abs(error) / math.sqrt(doubt)
        if off > _GATE:
            noise += doubt * ((off / _GATE) ** 2 - 1.0)
        gain /= spread + noise
        return replace(
            self,
            mean=_rising(self.mean + gain * error),
            covariance=self.covariance - np.outer(gain, gain) * (spread + noise),
            mean_per_idle_w=_held(self.mean_per_idle_w + gain * error_per_idle_w),
            steps=self.steps + 1,
        )

    def with_idle(self, idle_w: float, sd_w: float, *, load_w: float | None, load_ratio: float | None) -> "BoardCurve":
        """Return the curve with another idle power.

        What the steps measured of the load that draws `load_w` at `load_ratio` stays: its power at other clocks, not
        its power above idle.
        """
        moved = replace(self, idle_w=idle_w, idle_sd_w=sd_w)
        if not self.steps or load_w is None or load_ratio is None:
            return moved
        if max(idle_w, self.idle_w) > (1.0 - _LEAST_LOAD) * load_w:
            return moved
        weights, level_w = _weights(load_ratio), load_w - idle_w
        above_w = (load_w - self.idle_w) * np.exp(self.mean - float(weights @ self.mean))
        per_idle_w = self._per_idle_w(above_w, load_w - self.idle_w, weights) - 1.0
        above_w = np.maximum(above_w + per_idle_w * (idle_w - self.idle_w), _LEAST_HEIGHT * level_w)
        mean, slopes = np.log(above_w / level_w), per_idle_w / above_w + 1.0 / level_w
        return replace(moved, mean=_rising(mean - mean[-1]), mean_per_idle_w=_held(slopes - slopes[-1]))

    def height(self, clock_ratio: float) -> float:
        """Return the power above idle at a clock over that at the highest clock, under one load."""
        return math.exp(float(_weights(clock_ratio) @ self.mean))

    def step_sd(self, from_ratio: float, to_ratio: float) -> float:
        """Return the standard deviation of the logarithm of the change between two clocks."""
        weights = _weights(to_ratio) - _weights(from_ratio)
        return math.sqrt(max(float(weights @ self.covariance @ weights), 0.0))

    def predict(self, power_w: float, at_ratio: float, to_ratio: float) -> PowerBounds:
        """Return the power at a clock of the load that draws `power_w` at another."""
        idle = self.idle_bounds(power_w)
        ratio = self.height(to_ratio) / self.height(at_ratio)
        likely = (power_w - idle.power_w) * ratio
        reach = math.exp(Z_LOWER * self.step_sd(at_ratio, to_ratio))
        slope = float((_weights(to_ratio) - _weights(at_ratio)) @ self.mean_per_idle_w)
        per_idle_w = 1.0 - ratio + likely * slope
        ends = (per_idle_w * (idle.low_w - idle.power_w), per_idle_w * (idle.high_w - idle.power_w))
        expected = idle.power_w + likely
        below = math.hypot(likely * (1.0 - 1.0 / reach), min(ends))
        above = math.hypot(likely * (reach - 1.0), max(ends))
        return PowerBounds(low_w=max(expected - below, 0.0), power_w=expected, high_w=expected + above)

    def idle_bounds(self, power_w: float = math.inf) -> PowerBounds:
        """Return the idle power of a board that draws `power_w` under a load, which is more."""
        most_w = (1.0 - _LEAST_LOAD) * power_w
        likely, reach = min(self.idle_w, most_w), Z_LOWER * self.idle_sd_w
        low, high = max(likely - reach, 0.0), min(likely + reach, most_w)
        return PowerBounds(low_w=low, power_w=likely, high_w=high)

    def cautious(self, power_w: float, at_ratio: float) -> PowerCurve | HeightCurve:
        """Return the curve for a cap on the load that draws `power_w` at a clock: the upper bound at every other."""
        if not self.steps and self.given is not None:
            return self.given
        return _upper_curve(self, power_w, at_ratio)

    def upper_curve(self, power_w: float, at_ratio: float) -> HeightCurve:
        """Return the upper bound of the power at every clock; about 30 us."""
        idle = self.idle_bounds(power_w)
        idle_w, level_w = idle.power_w, power_w - idle.power_w
        weights = _weights(at_ratio)
        shared = self.covariance @ weights
        variance = self.covariance.diagonal() - 2.0 * shared + float(weights @ shared)
        likely = np.exp(self.mean - float(weights @ self.mean))
        reach = np.exp(Z_LOWER * np.sqrt(np.maximum(variance, 0.0))) - 1.0
        per_idle_w = self._per_idle_w(level_w * likely, level_w, weights)
        moved_w = np.maximum(per_idle_w * (idle.low_w - idle_w), per_idle_w * (idle.high_w - idle_w))
        above = likely + np.hypot(likely * reach, moved_w / level_w)
        place = bisect_right(RATIOS, at_ratio)
        # It must not fall with the clock, for caps search it by bisection: flat where the bounds would let it.
        above[:place] = np.minimum.accumulate(np.minimum(above[:place], 1.0)[::-1])[::-1]
        above[place:] = np.maximum.accumulate(np.maximum(above[place:], 1.0))
        full_w = idle_w + level_w * float(above[-1])
        return HeightCurve(ratios=RATIOS, idle=idle_w / full_w, heights=tuple((above / above[-1]).tolist()))

    def _per_idle_w(self, above_w: FloatArray, level_w: float, weights: FloatArray) -> FloatArray:
        """Return by how much the power of a load at `RATIOS` is higher per watt by which the idle power is.

        `above_w` is that power above idle, `level_w` the same at the clock of `weights`, at which the power is known.
        """
        slopes = self.mean_per_idle_w - float(weights @ self.mean_per_idle_w)
        change: FloatArray = 1.0 - above_w / level_w + above_w * slopes
        return change


# A cap in force is predicted again with each row, mostly with the same load and the same curve.
@lru_cache(maxsize=256)
def _upper_curve(board: BoardCurve, power_w: float, at_ratio: float) -> HeightCurve:
    return board.upper_curve(power_w, at_ratio)


def board_curve(
    shape: CurveShape, *, idle_w: float, idle_sd_w: float = 0.0, given: PowerCurve | None = None
) -> BoardCurve:
    """Return the curve of a board of which nothing was seen yet."""
    covariance = _MODEL_SD**2 * 2.0 * np.minimum(1.0 - _GRID[:, None], 1.0 - _GRID[None, :])
    for low, high in _varied(shape):
        deviation = (_ln_heights(high) - _ln_heights(low)) / 2.0
        covariance += np.outer(deviation, deviation)
    return BoardCurve(
        idle_w=idle_w, idle_sd_w=idle_sd_w, mean=_ln_heights(shape.curve), covariance=covariance, given=given
    )


def is_valid(mean: Sequence[float], covariance: Sequence[Sequence[float]]) -> bool:
    """Return True if these can be the mean and covariance of a board: shapes, finite, positive semidefinite."""
    size = len(RATIOS)
    if len(mean) != size or [len(row) for row in covariance] != [size] * size:
        return False
    values, spread = np.array(mean), np.array(covariance)
    if not (np.isfinite(values).all() and np.isfinite(spread).all() and np.abs(values).max() < 10.0):
        return False
    return bool(np.allclose(spread, spread.T, atol=1e-9) and np.linalg.eigvalsh(spread)[0] > -1e-9)


def is_slope(slopes: Sequence[float]) -> bool:
    """Return True if these can be the change of the mean per watt of idle power: shape and size."""
    return len(slopes) == len(RATIOS) and all(abs(slope) <= _SLOPE_MOST for slope in slopes)


def _varied(shape: CurveShape) -> list[tuple[PowerCurve, PowerCurve]]:
    """Return the curve with each parameter one standard deviation below and above, within what is possible."""
    curve = shape.curve
    floors = [min(max(curve.voltage_floor + sign * shape.floor_sd, 0.3), 0.95) for sign in (-1, 1)]
    knees = [min(max(curve.knee + sign * shape.knee_sd, 0.1), 0.9) for sign in (-1, 1)]
    spread = (1.0 / (1.0 + shape.static_sd_ratio), 1.0 + shape.static_sd_ratio)
    statics = [_static(curve, factor) for factor in spread]
    return [
        (replace(curve, static=statics[0]), replace(curve, static=statics[1])),
        (replace(curve, voltage_floor=floors[0]), replace(curve, voltage_floor=floors[1])),
        (replace(curve, knee=knees[0]), replace(curve, knee=knees[1])),
    ]


def _rising(mean: FloatArray) -> FloatArray:
    """Return the mean as a curve that rises to 0: halfway between the nearest ones above and below where it falls."""
    held = np.minimum(mean, 0.0)
    rising: FloatArray = (np.maximum.accumulate(held) + np.minimum.accumulate(held[::-1])[::-1]) / 2.0
    return rising


def _held(slopes: FloatArray) -> FloatArray:
    held: FloatArray = np.clip(slopes, -_SLOPE_MOST, _SLOPE_MOST)
    return held


def _static(curve: PowerCurve, factor: float) -> float:
    """Return the static share with the ratio of clock-independent to switching power multiplied."""
    ratio = factor * (curve.static - curve.idle) / (1.0 - curve.static)
    return (curve.idle + ratio) / (1.0 + ratio)


def _ln_heights(curve: PowerCurve) -> FloatArray:
    idle = curve.share(1.0, 0.0)
    return np.log([(curve.share(ratio) - idle) / (1.0 - idle) for ratio in RATIOS])


def _weights(clock_ratio: float) -> FloatArray:
    """Return the weights of the grid's points at a clock: linear between them, the end points beyond."""
    weights = np.zeros(len(RATIOS))
    place = min(max(bisect_right(RATIOS, clock_ratio), 1), len(RATIOS) - 1)
    below, above = RATIOS[place - 1], RATIOS[place]
    share = min(max((clock_ratio - below) / (above - below), 0.0), 1.0)
    weights[place - 1], weights[place] = 1.0 - share, share
    return weights
