"""Measures of the golden table: power of the boards and of the node, and how fast a job gets on."""

import numpy as np
import numpy.typing as npt

from simulator.golden.electrical import SAMPLE_MS, SENSOR_MS, window_means
from simulator.golden.table import GoldenRow
from simulator.golden.traces import GoldenTrace, Traces
from telemetry.frames import FloatArray

RISE = (0.1, 0.9)  # of the way from the low to the high level, as rise times are given


def mean_gpu_w(traces: Traces, row: GoldenRow) -> float:
    """Return the mean power of a GPU."""
    return float(traces.of(row.run).power_w.mean())


def peak_gpu_w(traces: Traces, row: GoldenRow) -> float:
    """Return the highest value that any board's sensor can show."""
    return float(window_means(traces.of(row.run).power_w, SENSOR_MS).max())


def saved_peak_w(traces: Traces, row: GoldenRow) -> float:
    """Return by how much the highest power of all GPUs together is lower than in the other run."""
    peaks = [_gpus_w(traces.of(name)).max() for name in (row.run, _against(row))]
    return float(peaks[1] - peaks[0])


def full_load_w(traces: Traces, row: GoldenRow) -> float:
    """Return the mean power of the node while all GPUs compute."""
    trace = traces.of(row.run)
    return float(trace.node_w[(trace.level == 1.0).all(axis=1)].mean())


def rise_from_w(traces: Traces, row: GoldenRow) -> float:
    """Return what one GPU shows before a step, at ten samples a second: the usual level of the exchange."""
    shown_w = _shown(traces.of(row.run))
    return float(np.quantile(shown_w, 0.1))


def rise_to_w(traces: Traces, row: GoldenRow) -> float:
    """Return the most that one GPU shows at ten samples a second."""
    return float(_shown(traces.of(row.run)).max())


def rise_s(traces: Traces, row: GoldenRow) -> float:
    """Return how long a rise takes at ten samples a second: from the last low sample to the first high one, median."""
    shown_w = _shown(traces.of(row.run))
    low_w, high_w = float(np.quantile(shown_w, 0.1)), float(np.quantile(shown_w, 0.9))
    low = shown_w < low_w + RISE[0] * (high_w - low_w)
    high = shown_w > low_w + RISE[1] * (high_w - low_w)
    tops = np.flatnonzero(high[1:] & ~high[:-1]) + 1
    spans = [top - lows[-1] for top in tops if len(lows := np.flatnonzero(low[:top]))]
    return float(np.median(spans)) * SAMPLE_MS / 1000.0


def step_swing_w(traces: Traces, row: GoldenRow) -> float:
    """Return from how low to how high all GPUs together go within a step."""
    total_w = _gpus_w(traces.of(row.run))
    return float(total_w.max() - np.quantile(total_w, 0.1))


def slowdown(traces: Traces, row: GoldenRow) -> float:
    """Return by how many per cent a step takes longer than in the other run."""
    return 100.0 * (step_ms(traces.of(row.run)) / step_ms(traces.of(_against(row))) - 1.0)


def job_s(traces: Traces, row: GoldenRow) -> float:
    """Return how long a job takes that took `at` seconds in the other run, the same work spread over its GPUs."""
    if row.at is None:
        raise ValueError(f"row {row.id}: at, the time of the other run in seconds")
    run, other = traces.of(row.run), traces.of(_against(row))
    spread = other.power_w.shape[1] / run.power_w.shape[1]
    return float(row.at * spread * step_ms(run) / step_ms(other))


def step_ms(trace: GoldenTrace) -> float:
    """Return the mean length of a training step; NaN where there are none."""
    starts = step_starts(trace)
    return float((starts[-1] - starts[0]) / (len(starts) - 1)) if len(starts) > 1 else float("nan")


def step_starts(trace: GoldenTrace) -> npt.NDArray[np.intp]:
    """Return the milliseconds before the first GPU begins to compute, one of each training step."""
    busy = (trace.level == 1.0).any(axis=1)
    return np.flatnonzero(busy[1:] & ~busy[:-1])


def _gpus_w(trace: GoldenTrace) -> FloatArray:
    total_w: FloatArray = window_means(trace.power_w.sum(axis=1), SENSOR_MS)
    return total_w


def _shown(trace: GoldenTrace) -> FloatArray:
    """Return the power of GPU 0 at ten samples a second: the newest mean of its sensor, exact to the watt here."""
    return window_means(trace.power_w[:, 0], SENSOR_MS)[:: SAMPLE_MS // SENSOR_MS]


def _against(row: GoldenRow) -> str:
    if row.against is None:
        raise ValueError(f"row {row.id}: against, the other run")
    return row.against
