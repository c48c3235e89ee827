"""Slow change of source resistance: CUSUM and effect size on its logarithm, against a baseline that is frozen.

A joint ages over months, and a baseline that adapts follows it: a numeric detector on public detachment data fell from
33 % to 2 % found when its baseline adapted. So the first week is the baseline until an operator accepts a new one.

One-sided CUSUM after Page, Biometrika 41, 1954. With slack 0.5 and threshold 12 standard deviations the mean time
between false alarms is 10^6 hours of white noise (Markov chain after Brook and Evans, Biometrika 59, 1972), yet 650 at
an autocorrelation of 0.6: hence hourly medians, a floor under the scatter, and an effect that must be there too.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt

from analytics.change.control_charts import CusumState, cusum_step
from physics.constants import MAD_TO_SD, MEDIAN_TO_MEAN, Z_BOTH
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray, filled, reset_where

# Units of time: minutes of an hour, and an hour of a week.
HOUR_NS = 3600 * NS_PER_S
_MINUTE_NS = 60 * NS_PER_S
_MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenHour:
    """Windows of the running hour; `number` is hours since 1970, None before the first.

    `variance` sums the variances of the windows, as shares squared.
    """

    number: int | None
    kept_ohm: Annotated[FloatArray, np.nan, _MINUTES]
    kept_ns: TimeArray
    variance: FromZero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HourlyResistance:
    """Result of one or more hours, shape ``(n_paths,)``, NaN where not identified; `hours` have passed.

    `sd_ratio` is the standard error as a share of the resistance.
    """

    resistance_ohm: FloatArray
    sd_ratio: FloatArray
    hours: int


def take(
    hour: OpenHour, resistance_ohm: FloatArray, sd_ohm: FloatArray, now_ns: int, *, block_s: float
) -> tuple[OpenHour, HourlyResistance | None]:
    """Add the windows of a block of `block_s`; return the result of ended hours, None while one runs.

    A block that lasts an hour and more is its own hour, so that a slow sensor is not evaluated a block late.
    """
    hour, ended = turn(hour, now_ns)
    if block_s * NS_PER_S < HOUR_NS:
        return keep(hour, resistance_ohm, sd_ohm, now_ns), ended
    sd_ratio = sd_ohm / resistance_ohm
    return hour, HourlyResistance(
        resistance_ohm=resistance_ohm, sd_ratio=sd_ratio, hours=1 if ended is None else ended.hours
    )


def keep(hour: OpenHour, resistance_ohm: FloatArray, sd_ohm: FloatArray, now_ns: int) -> OpenHour:
    """Keep the identified values, one a minute."""
    seen: MaskArray = np.isfinite(resistance_ohm) & (np.abs(now_ns - hour.kept_ns) >= _MINUTE_NS)
    if not seen.any():
        return hour
    rows = np.flatnonzero(seen)
    kept_ohm, variance = hour.kept_ohm.copy(), hour.variance.copy()
    kept_ohm[rows, (now_ns // _MINUTE_NS) % _MINUTES] = resistance_ohm[rows]
    variance[rows] += (sd_ohm[rows] / resistance_ohm[rows]) ** 2
    return replace(hour, kept_ohm=kept_ohm, kept_ns=np.where(seen, now_ns, hour.kept_ns), variance=variance)


def turn(hour: OpenHour, now_ns: int) -> tuple[OpenHour, HourlyResistance | None]:
    """Return the result of the hours that ended, None while one runs.

    A clock that was set back ends nothing: the hour that runs takes the number that the clock shows.
    """
    number = now_ns // HOUR_NS
    if hour.number is None or number < hour.number:
        return replace(hour, number=number), None
    if number == hour.number:
        return hour, None
    count = np.isfinite(hour.kept_ohm).sum(axis=1)
    medians = np.full(len(hour.kept_ohm), np.nan)
    rows = np.flatnonzero(count)
    if rows.size:
        medians[rows] = np.nanmedian(hour.kept_ohm[rows], axis=1)
    # Mean variance of a window over their number; one window is its own median.
    known = np.maximum(count, 1.0)
    variance = hour.variance / known**2 * np.where(count > 1, MEDIAN_TO_MEAN**2, 1.0)
    after = replace(
        hour, number=number, kept_ohm=np.full_like(hour.kept_ohm, np.nan), variance=np.zeros_like(hour.variance)
    )
    return after, HourlyResistance(resistance_ohm=medians, sd_ratio=np.sqrt(variance), hours=number - hour.number)


CountArray = npt.NDArray[np.int64]

# A week holds the daily swing of room and load seven times; an hour each.
BASELINE_HOURS = 168
# heuristic: fewer hours with an answer than this do not show their scatter; an idle node needs longer.
MIN_BASELINE_VALUES = 8
# Floor of the scatter: 1.5 % covers what ten kelvin of a room move and gain errors that drift (assumption).
SCATTER_FLOOR = 0.015
# heuristic: what hours of one day differ by at least, where the effect is followed.
EFFECT_SCATTER_FLOOR = 0.005
THRESHOLD_SD = 12.0
# heuristic: a resistance is taken to wander by two per cent a day, a fast joint, so that hours that scatter by as much
# are followed within some of them, and hours that scatter by four times as much within a day.
WANDER_PER_DAY = 0.02
# heuristic: a rise by 8 % is reported. A joint that ages has aged by some per cent in the week that is its baseline, so
# this is a rise by a tenth since it was first seen. A fifth where the voltage comes in steps of 20 mV and more
# (eight-bit controllers), whose bias moves with the levels of the load.
EFFECT_RATIO = 1.08
COARSE_EFFECT_RATIO = 1.20
# heuristic: half of that must be there at the lower end of what is known, baseline included.
_SURE_PART = 0.5
# heuristic: after years without an answer nothing is known any more, and it shall not overflow.
_MOST_VARIANCE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlowChange:
    """State of the slow change of every path; the first axis of each array is the path.

    `learnt` holds the logarithms of the baseline hours, NaN where not yet; `hours` counts the hours since the first.
    `centre`, its standard error and `scatter` are NaN until the baseline is complete, and frozen then. `effect` is
    what lies over the centre, a logarithm, followed by a Kalman filter of a random walk; `variance` is its own.
    """

    learnt: Annotated[FloatArray, np.nan, BASELINE_HOURS]
    hours: CountArray
    centre: FloatArray
    centre_sd: FloatArray
    scatter: FloatArray
    cusum: CusumState
    effect: FromZero
    variance: FromZero

    @property
    def known(self) -> MaskArray:
        """Return a mask of paths with a complete baseline."""
        return ~np.isnan(self.centre)

    def rise_ratio(self) -> FloatArray:
        """Return the resistance now over the baseline, NaN where there is none yet."""
        return np.where(self.known, np.exp(self.effect), np.nan)

    def rise_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the 95 % bounds of the rise, with the baseline's own uncertainty; NaN where there is none yet."""
        reach = Z_BOTH * np.sqrt(self.variance + self.centre_sd**2)
        return np.exp(self.effect - reach), np.exp(self.effect + reach)

    def risen(self, coarse: MaskArray) -> MaskArray:
        """Return a mask of paths with a certain and large enough rise; `coarse` marks sensors with large steps."""
        least = np.log(np.where(coarse, COARSE_EFFECT_RATIO, EFFECT_RATIO))
        low, _ = self.rise_bounds()
        sure = self.known & (self.cusum.above > THRESHOLD_SD) & (np.log(low) > _SURE_PART * least)
        return np.asarray(sure & (self.effect > least), dtype=np.bool_)


def add_hour(
    state: SlowChange, resistance_ohm: FloatArray, *, sd_ratio: FloatArray | float = 0.0, hours: int = 1
) -> SlowChange:
    """Add the resistance of an hour, NaN where there is none; `hours` have passed since the last call.

    `sd_ratio` is its own standard error as a share: an hour of one short window weighs less than one of sixty.
    """
    seen = np.isfinite(resistance_ohm) & (resistance_ohm > 0.0)
    value = np.log(np.where(seen, resistance_ohm, 1.0))
    begun = seen | (state.hours > 0)
    learning = ~state.known
    passed = np.where(begun, state.hours + hours, 0)
    # A path that is seldom identified goes on learning after the week, over the hours of the week before.
    slot = (passed - 1) % BASELINE_HOURS
    learnt = state.learnt
    here = np.flatnonzero(seen & learning)
    if here.size:
        learnt = learnt.copy()
        learnt[here, slot[here]] = value[here]
    after = replace(state, learnt=learnt, hours=np.where(learning, passed, state.hours))
    wandered = np.minimum(state.variance + hours / 24.0 * WANDER_PER_DAY**2, _MOST_VARIANCE)
    after = replace(after, variance=np.where(learning, 0.0, wandered))
    after = _judged(after, value, seen & ~learning, np.where(seen, sd_ratio, 0.0))
    return _completed(after, learning)


def accept(state: SlowChange, accepted: MaskArray) -> SlowChange:
    """Reset the baseline of the accepted paths."""
    return reset_where(state, filled(SlowChange, len(accepted)), accepted)


def _judged(state: SlowChange, value: FloatArray, seen: MaskArray, sd_ratio: FloatArray) -> SlowChange:
    scatter = np.fmax(state.scatter, sd_ratio)
    # Against the upper end of the baseline: what the first week does not know must not pile up in the sum.
    cusum = cusum_step(
        state.cusum,
        np.where(seen, value, np.nan),
        mean=state.centre + state.centre_sd,
        sigma=np.maximum(scatter, SCATTER_FLOOR),
    )
    over = np.where(seen, value - state.centre - state.effect, 0.0)
    gain = np.where(seen, state.variance / (state.variance + np.maximum(scatter, EFFECT_SCATTER_FLOOR) ** 2), 0.0)
    return replace(state, cusum=cusum, effect=state.effect + gain * over, variance=state.variance * (1.0 - gain))


def _completed(state: SlowChange, learning: MaskArray) -> SlowChange:
    """Freeze the baseline where a week has passed and it holds enough hours."""
    due = np.flatnonzero(learning & (state.hours >= BASELINE_HOURS))
    counts = np.isfinite(state.learnt[due]).sum(axis=1)
    due, counts = due[counts >= MIN_BASELINE_VALUES], counts[counts >= MIN_BASELINE_VALUES]
    if not due.size:
        return state
    centre, centre_sd, scatter = state.centre.copy(), state.centre_sd.copy(), state.scatter.copy()
    centre[due] = np.nanmedian(state.learnt[due], axis=1)
    off = np.abs(state.learnt[due] - centre[due, np.newaxis])
    scatter[due] = MAD_TO_SD * np.nanmedian(off, axis=1)
    centre_sd[due] = MEDIAN_TO_MEAN * np.maximum(scatter[due], EFFECT_SCATTER_FLOOR) / np.sqrt(counts)
    return replace(state, centre=centre, centre_sd=centre_sd, scatter=scatter)
