"""Running means of temperature and power over some training steps, so that GPUs can be compared between steps."""

import math
from dataclasses import dataclass

import numpy as np

from analytics.detectors.condition import elapsed_ns
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, TimeArray

# assumption: a heat sink of 800 J/K at 0.06 K/W follows the power within 48 s; a little more, to be on the safe side.
_SINK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarmMeans:
    """Means with exponential memory, each array of shape ``(n_gpus,)``; NaN before the first value.

    `long_power_w` is the mean power over the time in which a heat sink follows, `observed_s` the time for which both
    values were known, `seen_ns` when they last were. `cooled_ns` says when clocks were last cut, and `was_cooled`
    whether they ever were.
    """

    last_ns: int | None
    temp_c: FloatArray
    power_w: FloatArray
    long_power_w: FloatArray
    observed_s: FloatArray
    seen_ns: TimeArray
    cooled_ns: TimeArray
    was_cooled: MaskArray

    @staticmethod
    def empty(n_gpus: int) -> "WarmMeans":
        """Give what holds before the first row."""
        return WarmMeans(
            last_ns=None,
            temp_c=np.full(n_gpus, np.nan),
            power_w=np.full(n_gpus, np.nan),
            long_power_w=np.full(n_gpus, np.nan),
            observed_s=np.zeros(n_gpus),
            seen_ns=np.zeros(n_gpus, dtype=np.int64),
            cooled_ns=np.zeros(n_gpus, dtype=np.int64),
            was_cooled=np.zeros(n_gpus, dtype=np.bool_),
        )

    def cooled_within(self, now_ns: int, seconds: float) -> MaskArray:
        """Give where clocks were cut within the last seconds."""
        recent: MaskArray = self.was_cooled & (now_ns - self.cooled_ns <= seconds * NS_PER_S)
        return recent

    def seen_within(self, now_ns: int, seconds: float) -> MaskArray:
        """Give where both values came within the last seconds; the means of a GPU that is gone stand still."""
        recent: MaskArray = (self.observed_s > 0) & (now_ns - self.seen_ns <= seconds * NS_PER_S)
        return recent


def add_row(
    means: WarmMeans,
    *,
    now_ns: int,
    temp_c: FloatArray,
    power_w: FloatArray,
    cooled: MaskArray,
    smoothing_s: float,
) -> WarmMeans:
    """Add one row; a GPU with a NaN keeps its means. Until `smoothing_s` was seen they are plain means."""
    passed_s = elapsed_ns(means.last_ns, now_ns) / NS_PER_S
    known = ~(np.isnan(temp_c) | np.isnan(power_w))
    observed_s = means.observed_s + np.where(known, passed_s, 0.0)
    first = known & np.isnan(means.temp_c)

    def moved(mean: FloatArray, value: FloatArray, memory_s: float) -> FloatArray:
        share = np.maximum(1.0 - math.exp(-passed_s / memory_s), passed_s / np.maximum(observed_s, 1e-9))
        after: FloatArray = np.where(first, value, np.where(known, mean + share * (value - mean), mean))
        return after

    return WarmMeans(
        last_ns=now_ns,
        temp_c=moved(means.temp_c, temp_c, smoothing_s),
        power_w=moved(means.power_w, power_w, smoothing_s),
        long_power_w=moved(means.long_power_w, power_w, _SINK_S),
        observed_s=observed_s,
        seen_ns=np.where(known, now_ns, means.seen_ns),
        cooled_ns=np.where(cooled, now_ns, means.cooled_ns) if cooled.any() else means.cooled_ns,
        was_cooled=means.was_cooled | cooled,
    )
