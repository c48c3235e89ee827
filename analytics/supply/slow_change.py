"""Slow change of source resistance: CUSUM and effect size on its logarithm, against a baseline that is frozen.

A joint ages over months, and a baseline that adapts follows it: a numeric detector on public detachment data fell from
33 % to 2 % found when its baseline adapted. So the first week is the baseline until a person accepts a new one.

One-sided CUSUM after Page, Biometrika 41, 1954. With slack 0.5 and threshold 12 standard deviations the mean time
between false alarms is 10^6 hours of white noise (Markov chain after Brook and Evans, Biometrika 59, 1972), yet 650 at
an autocorrelation of 0.6: hence hourly medians, a floor under the scatter, and an effect that must be there too.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analytics.change.cusum import CusumState, cusum_step
from telemetry.frames import FloatArray, MaskArray

CountArray = npt.NDArray[np.int64]

# A week holds the daily swing of room and load seven times; an hour each.
BASELINE_HOURS = 168
# own choice: fewer hours with an answer than this say nothing of their scatter; an idle node needs longer.
MIN_BASELINE_VALUES = 8
# Floor of the scatter: 1.5 % covers what ten kelvin of a room move and gain errors that drift (assumption).
SCATTER_FLOOR = 0.015
THRESHOLD_SD = 12.0
# own choice: ten hours of memory, so that one odd hour moves the effect by a tenth.
EFFECT_SHARE = 0.1
# own choice: a rise by a tenth is told; by a fifth where the voltage comes in steps of 20 mV and more (eight-bit
# controllers), whose bias moves with the levels of the load.
EFFECT_RATIO = 1.10
COARSE_EFFECT_RATIO = 1.20
_MAD_TO_SD = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlowChange:
    """Where the slow change of every path stands; arrays have the paths as first axis.

    `learnt` holds the logarithms of the baseline hours, NaN where not yet; `hours` counts the hours since the first.
    `centre` and `scatter` are NaN until the baseline is complete, and frozen then. `effect` is the mean of what lies
    over the centre, a logarithm.
    """

    learnt: FloatArray
    hours: CountArray
    centre: FloatArray
    scatter: FloatArray
    cusum: CusumState
    effect: FloatArray

    @staticmethod
    def new(n_paths: int) -> "SlowChange":
        """Give what holds before the first hour."""
        unknown = np.full(n_paths, np.nan)
        return SlowChange(
            learnt=np.full((n_paths, BASELINE_HOURS), np.nan),
            hours=np.zeros(n_paths, dtype=np.int64),
            centre=unknown,
            scatter=unknown,
            cusum=CusumState.empty(n_paths),
            effect=np.zeros(n_paths),
        )

    @property
    def known(self) -> MaskArray:
        """Say where the baseline is complete."""
        return ~np.isnan(self.centre)

    def rise_ratio(self) -> FloatArray:
        """Give the resistance now over the baseline, NaN where there is none yet."""
        return np.where(self.known, np.exp(self.effect), np.nan)

    def risen(self, coarse: MaskArray) -> MaskArray:
        """Say where the rise is certain and large enough to tell; `coarse` marks sensors with large steps."""
        least = np.where(coarse, np.log(COARSE_EFFECT_RATIO), np.log(EFFECT_RATIO))
        return np.asarray(self.known & (self.cusum.above > THRESHOLD_SD) & (self.effect > least), dtype=np.bool_)


def add_hour(state: SlowChange, resistance_ohm: FloatArray, *, hours: int = 1) -> SlowChange:
    """Add the median resistance of an hour, NaN where there is none; `hours` have passed since the last call."""
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
    after = _judged(after, value, seen & ~learning)
    return _completed(after, learning)


def accept(state: SlowChange, accepted: MaskArray) -> SlowChange:
    """Learn the baseline anew where a person accepted that the path is another one now."""
    fresh = SlowChange.new(len(accepted))
    return SlowChange(
        learnt=np.where(accepted[:, np.newaxis], fresh.learnt, state.learnt),
        hours=np.where(accepted, fresh.hours, state.hours),
        centre=np.where(accepted, fresh.centre, state.centre),
        scatter=np.where(accepted, fresh.scatter, state.scatter),
        cusum=state.cusum.cleared(accepted),
        effect=np.where(accepted, fresh.effect, state.effect),
    )


def _judged(state: SlowChange, value: FloatArray, seen: MaskArray) -> SlowChange:
    over = np.where(seen, value - state.centre, 0.0)
    cusum = cusum_step(state.cusum, np.where(seen, value, np.nan), mean=state.centre, sigma=state.scatter)
    effect = np.where(seen, state.effect + EFFECT_SHARE * (over - state.effect), state.effect)
    return replace(state, cusum=cusum, effect=effect)


def _completed(state: SlowChange, learning: MaskArray) -> SlowChange:
    """Freeze the baseline where a week has passed and it holds enough hours."""
    due = np.flatnonzero(learning & (state.hours >= BASELINE_HOURS))
    due = due[np.isfinite(state.learnt[due]).sum(axis=1) >= MIN_BASELINE_VALUES]
    if not due.size:
        return state
    centre, scatter = state.centre.copy(), state.scatter.copy()
    centre[due] = np.nanmedian(state.learnt[due], axis=1)
    off = np.abs(state.learnt[due] - centre[due, np.newaxis])
    scatter[due] = np.maximum(_MAD_TO_SD * np.nanmedian(off, axis=1), SCATTER_FLOOR)
    return replace(state, centre=centre, scatter=scatter)
