"""Running means of temperature and power over some training steps, so that GPUs can be compared between steps."""

import math
from dataclasses import dataclass

import numpy as np

from analytics.detectors.condition import elapsed_ns
from physics.heat_sink import SINK_S, felt_w
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarmMeans:
    """Means with exponential memory, each array of shape ``(n_gpus,)``; NaN before the first value.

    `sink_w` is the mean power over the time in which a heat sink follows, `observed_s` the time for which both values
    were known, `seen_ns` when they last were. `cooled_ns` is when clocks were last cut, `was_cooled` marks GPUs where
    they ever were.
    """

    last_ns: int | None
    temp_c: FloatArray
    power_w: FloatArray
    sink_w: FloatArray
    observed_s: FloatArray
    seen_ns: TimeArray
    cooled_ns: TimeArray
    was_cooled: MaskArray

    @staticmethod
    def empty(n_gpus: int) -> "WarmMeans":
        """Return the state before the first row."""
        return WarmMeans(
            last_ns=None,
            temp_c=np.full(n_gpus, np.nan),
            power_w=np.full(n_gpus, np.nan),
            sink_w=np.full(n_gpus, np.nan),
            observed_s=np.zeros(n_gpus),
            seen_ns=np.zeros(n_gpus, dtype=np.int64),
            cooled_ns=np.zeros(n_gpus, dtype=np.int64),
            was_cooled=np.zeros(n_gpus, dtype=np.bool_),
        )

    @property
    def felt_w(self) -> FloatArray:
        """Return the power that the temperature reflects; see `physics.heat_sink`."""
        return felt_w(self.power_w, self.sink_w)

    def cooled_within(self, now_ns: int, seconds: float) -> MaskArray:
        """Return where clocks were cut within the last seconds."""
        recent: MaskArray = self.was_cooled & (now_ns - self.cooled_ns <= seconds * NS_PER_S)
        return recent

    def seen_within(self, now_ns: int, seconds: float) -> MaskArray:
        """Return where both values came within the last seconds; the means of a lost GPU do not change."""
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

    mean_w = moved(means.power_w, power_w, smoothing_s)
    return WarmMeans(
        last_ns=now_ns,
        temp_c=moved(means.temp_c, temp_c, smoothing_s),
        power_w=mean_w,
        # What the sink carries, smoothed as the temperature is: the sink's memory of the power's mean.
        sink_w=moved(means.sink_w, mean_w, SINK_S),
        observed_s=observed_s,
        seen_ns=np.where(known, now_ns, means.seen_ns),
        cooled_ns=np.where(cooled, now_ns, means.cooled_ns) if cooled.any() else means.cooled_ns,
        was_cooled=means.was_cooled | cooled,
    )
