"""Means of GPU temperature and power with exponential memory, updated with every row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import elapsed_ns
from physics.cooling import SINK_S, felt_w
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray


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
    observed_s: FromZero
    seen_ns: TimeArray
    cooled_ns: TimeArray
    was_cooled: MaskArray

    @property
    def felt_w(self) -> FloatArray:
        """Return the power that the temperature reflects; see `physics.cooling`."""
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


def add_rows(
    means: WarmMeans,
    times_ns: Sequence[int],
    temps_c: FloatArray,
    powers_w: FloatArray,
    *,
    cooled: MaskArray,
    smoothing_s: float,
) -> WarmMeans:
    """Add rows of shape ``(n_rows, n_gpus)``: what `add_row` makes of them one by one, without its special cases."""
    if np.isnan(temps_c).any() or np.isnan(powers_w).any() or np.isnan(means.temp_c).any() or cooled.any():
        for now_ns, temp_c, power_w, cut in zip(times_ns, temps_c, powers_w, cooled, strict=True):
            means = add_row(means, now_ns=now_ns, temp_c=temp_c, power_w=power_w, cooled=cut, smoothing_s=smoothing_s)
        return means
    last_ns, observed_s = means.last_ns, means.observed_s
    mean_c, mean_w, sink_w = means.temp_c, means.power_w, means.sink_w
    for now_ns, temp_c, power_w in zip(times_ns, temps_c, powers_w, strict=True):
        passed_s = elapsed_ns(last_ns, now_ns) / NS_PER_S
        last_ns, observed_s = now_ns, observed_s + passed_s
        least = passed_s / np.maximum(observed_s, 1e-9)
        share = np.maximum(1.0 - math.exp(-passed_s / smoothing_s), least)
        mean_c = mean_c + share * (temp_c - mean_c)
        mean_w = mean_w + share * (power_w - mean_w)
        sink_w = sink_w + np.maximum(1.0 - math.exp(-passed_s / SINK_S), least) * (mean_w - sink_w)
    return replace(
        means,
        last_ns=last_ns,
        temp_c=mean_c,
        power_w=mean_w,
        sink_w=sink_w,
        observed_s=observed_s,
        seen_ns=np.full_like(means.seen_ns, last_ns),
    )
