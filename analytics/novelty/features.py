"""Features of a GPU: its signals in steps of sensor resolution, less those of its siblings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from telemetry.frames import FloatArray, MaskArray

# heuristic: siblings whose power lies within this factor of the group's median are under a like load: the others idle,
# or do something else.
LIKE_LOAD_RATIO = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSignal:
    """Signal with label, unit and step; the step is a share of the value where `is_ratio`."""

    signal: str
    label: str
    unit: str
    step: float
    is_ratio: bool = False

    def steps(self, values: FloatArray) -> FloatArray:
        """Return values in steps; NaN where one is absent, or not above 0 where only that has a logarithm."""
        if not self.is_ratio:
            return values / self.step
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatArray = np.where(values > 0, np.log(values), np.nan) / self.step
        return found

    def value(self, steps: float) -> float:
        """Return the value of a number of steps."""
        return math.exp(min(steps * self.step, 700.0)) if self.is_ratio else steps * self.step


# The load comes first. Temperatures come in whole kelvin, utilisation in whole per cent of a window that is short
# beside a training step, boards report power within a few per cent; heuristic: the steps follow from that.
FEATURE_SIGNALS: Mapping[str, FeatureSignal] = {
    one.signal: one
    for one in (
        FeatureSignal(signal="power_w", label="power", unit="W", step=0.02, is_ratio=True),
        FeatureSignal(signal="sm_clock_mhz", label="clock", unit="MHz", step=0.01, is_ratio=True),
        FeatureSignal(signal="gpu_temp_c", label="temperature", unit="°C", step=1.0),
        FeatureSignal(signal="hbm_temp_c", label="memory temperature", unit="°C", step=1.0),
        FeatureSignal(signal="gpu_util_ratio", label="utilisation", unit="", step=0.05),
        FeatureSignal(signal="mem_util_ratio", label="memory utilisation", unit="", step=0.05),
    )
}


def present(signals: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the feature signals that a table has, the load first."""
    return tuple(name for name in FEATURE_SIGNALS if name in signals)


def features_of(means: FloatArray, senses: Sequence[str], groups: GroupArray) -> tuple[FloatArray, FloatArray]:
    """Return features ``(n_gpus, n_senses + 1)`` and what siblings show ``(n_gpus, n_senses)``, in steps.

    The features are a GPU's own load, then each signal less the siblings' median. A GPU without two siblings in its
    node is not compared: its signals as they are, but for the load, which is there already. One whose siblings are
    under another load has no features: NaN.
    """
    steps = np.stack([FEATURE_SIGNALS[name].steps(means[:, place]) for place, name in enumerate(senses)], axis=1)
    alone = np.bincount(groups, minlength=1)[groups] <= MIN_SIBLINGS
    like = _like_load(steps[:, 0], groups)
    beside = np.stack(
        [sibling_median(np.where(like, column, np.nan), groups, min_siblings=MIN_SIBLINGS) for column in steps.T],
        axis=1,
    )
    beside[~like] = np.nan
    beside[alone] = 0.0
    features = np.concatenate([steps[:, :1], steps - beside], axis=1)
    features[alone, 1] = np.nan
    features[np.isnan(beside[:, 0])] = np.nan
    return features, beside


def _like_load(load: FloatArray, groups: GroupArray) -> MaskArray:
    """Return a mask of GPUs with a load near the median of their group."""
    order = np.lexsort((load, groups))  # NaN goes last within a group
    known = np.bincount(groups, weights=~np.isnan(load), minlength=1).astype(np.intp)
    sizes = np.bincount(groups, minlength=1)
    starts = np.cumsum(sizes) - sizes
    lower = np.maximum((known - 1) // 2, 0)
    middle = (load[order[starts + lower]] + load[order[starts + np.maximum(known // 2, 0)]]) / 2.0
    middle = np.where(known > 0, middle, np.nan)
    reach = math.log(LIKE_LOAD_RATIO) / FEATURE_SIGNALS["power_w"].step
    like: MaskArray = np.abs(load - middle[groups]) <= reach
    return like
