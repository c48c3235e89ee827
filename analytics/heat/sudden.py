"""Sudden change of thermal resistance at a constant load: stopped fans, a loose duct.

It needs no learned past, only minutes: resistance now against resistance so far under this load. While the load
changes, and for some time afterwards, fans still follow it and nothing is reported.
"""

import math
from dataclasses import dataclass

import numpy as np

from physics.heat_sink import SINK_S
from telemetry.frames import FloatArray, MaskArray

# A load counts as steady where power lies within this of its mean over the minutes before. heuristic: training steps
# average out over a sink's time constant, jobs differ by more.
STEADY_RATIO = 0.1
_LOAD_S = 240.0
# heuristic: "Now", short against the rise of a heat sink and long against a training step.
_NOW_S = 10.0
# heuristic: "So far": follows controllers and rooms, not what happens within minutes.
_SO_FAR_S = 600.0
# Steady time before "so far" means anything. heuristic: two dozen training steps.
SETTLE_S = 25.0
# heuristic: the highest temperature before is that of a mean over so long: it does not follow the change to be found.
_PEAK_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SuddenState:
    """Means with exponential memory, each of shape ``(n_entities,)``; NaN before the first value.

    `peak_c` is the highest that the slow mean `mean_c` of the temperature has been in `watched_s` under any load.
    """

    power_w: FloatArray
    load_w: FloatArray
    now: FloatArray
    so_far: FloatArray
    settled_s: FloatArray
    temp_c: FloatArray
    mean_c: FloatArray
    peak_c: FloatArray
    watched_s: FloatArray

    @staticmethod
    def nothing(n_entities: int) -> "SuddenState":
        """Return the state before the first row."""
        nan, zero = np.full(n_entities, np.nan), np.zeros(n_entities)
        return SuddenState(
            power_w=nan.copy(),
            load_w=nan.copy(),
            now=nan.copy(),
            so_far=nan.copy(),
            settled_s=zero.copy(),
            temp_c=nan.copy(),
            mean_c=nan.copy(),
            peak_c=nan.copy(),
            watched_s=zero.copy(),
        )

    def excess(self) -> FloatArray:
        """Return resistance now over resistance so far, less 1; NaN until both are known."""
        known = self.settled_s >= SETTLE_S
        return np.where(known, self.now, np.nan) / np.where(known, self.so_far, 1.0) - 1.0


def add_row(
    state: SuddenState,
    *,
    passed_s: float,
    rise_c: FloatArray,
    power_w: FloatArray,
    temp_c: FloatArray,
    min_rise_c: float,
    frozen: MaskArray,
) -> SuddenState:
    """Add one row of rise above the inlet, brought to one fan duty, and power; a NaN changes nothing.

    Where it is `frozen`, what was so far stays: a reported change is not learned.

    After a gap in time (`passed_s` 0) the next rows continue from the last ones.
    """
    known = np.isfinite(rise_c) & np.isfinite(power_w) & (power_w > 0)

    def moved(mean: FloatArray, value: FloatArray, constant_s: float) -> FloatArray:
        share = -math.expm1(-passed_s / constant_s)
        after: FloatArray = np.where(np.isnan(mean), value, mean + share * (value - mean))
        return after

    sink_w = np.where(known, moved(state.power_w, power_w, SINK_S), state.power_w)
    load_w = np.where(known, moved(state.load_w, power_w, _LOAD_S), state.load_w)
    same: MaskArray = np.abs(sink_w - load_w) <= STEADY_RATIO * load_w
    usable = known & same & (rise_c >= min_rise_c)
    theta = np.where(usable, rise_c, np.nan) / np.where(known, sink_w, 1.0)
    now = np.where(usable, moved(state.now, theta, _NOW_S), state.now)
    fits = usable & ~frozen
    settled_s = np.where(known & ~same, 0.0, state.settled_s + np.where(usable, passed_s, 0.0))
    begun = np.maximum(settled_s, passed_s)
    share = np.maximum(-math.expm1(-passed_s / _SO_FAR_S), passed_s / np.where(begun > 0, begun, 1.0))
    so_far = np.where(np.isnan(state.so_far), now, state.so_far + np.where(fits, share * (now - state.so_far), 0.0))
    changed = known & ~same
    watched = known & (rise_c >= min_rise_c)
    mean_c = np.where(watched & ~frozen, moved(state.mean_c, temp_c, _PEAK_S), state.mean_c)
    return SuddenState(
        power_w=sink_w,
        load_w=load_w,
        now=np.where(changed, np.nan, now),
        so_far=np.where(changed, np.nan, so_far),
        settled_s=settled_s,
        temp_c=np.where(known, moved(state.temp_c, temp_c, _NOW_S), state.temp_c),
        mean_c=mean_c,
        peak_c=np.fmax(state.peak_c, mean_c),
        watched_s=state.watched_s + np.where(watched, passed_s, 0.0),
    )
