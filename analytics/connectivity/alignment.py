"""Power of supplies and GPUs brought to the same time: GPUs report a mean over up to a second, and late."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# The power of a GPU is a mean over up to 1 s (H100; Yang et al., SC'24, arXiv 2312.02741), and may be read a second
# late.
_WINDOWS_S, _MOST_LAG_S = (0.0, 0.5, 1.0), 1.0
# heuristic: a correlation of fewer rows means nothing.
_LEAST_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedPower:
    """Power of the same times: each row is a mean over `window_s` from its time on.

    Shapes ``(n_times, n_supplies)`` and ``(n_times, n_gpus)``; NaN where nothing was read.
    """

    supply_w: FloatArray
    gpu_w: FloatArray
    window_s: float


def aligned_power(supply_w: FloatArray, gpu_w: FloatArray, *, step_s: float) -> AlignedPower:
    """Return both with the supplies averaged and delayed as the sensors of the GPUs are, as far as that can be seen.

    Shapes ``(n_times, n_supplies)`` and ``(n_times, n_gpus)``, evenly spaced by `step_s`; NaN where nothing was read.
    """
    load_w = gpu_w.sum(axis=1)
    best, chosen = -1.0, AlignedPower(supply_w=supply_w, gpu_w=gpu_w, window_s=step_s)
    for window in sorted({max(1, round(window_s / step_s)) for window_s in _WINDOWS_S}):
        means = means_over(supply_w, window)
        total_w = means.sum(axis=1)
        for lag in range(round(_MOST_LAG_S / step_s) + 1):
            first = window - 1 + lag
            here, there = total_w[: len(total_w) - lag], load_w[first:]
            known = np.isfinite(here) & np.isfinite(there)
            if known.sum() < _LEAST_ROWS or not (np.ptp(here[known]) > 0.0 and np.ptp(there[known]) > 0.0):
                continue
            alike = float(np.corrcoef(here[known], there[known])[0, 1])
            if alike > best + 1e-9:
                best = alike
                chosen = AlignedPower(supply_w=means[: len(means) - lag], gpu_w=gpu_w[first:], window_s=window * step_s)
    return chosen


def means_over(values: FloatArray, count: int) -> FloatArray:
    """Return the means over each `count` rows in a row; NaN where one of them was not read."""
    missing = np.isnan(values)
    filled = np.concatenate([np.zeros((1, values.shape[1])), np.where(missing, 0.0, values)])
    gaps = np.concatenate([np.zeros((1, values.shape[1])), missing])
    totals, lacking = np.cumsum(filled, axis=0), np.cumsum(gaps, axis=0)
    return np.where(lacking[count:] > lacking[:-count], np.nan, (totals[count:] - totals[:-count]) / count)
