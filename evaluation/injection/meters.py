"""Faults of meters, and of who wrote a recording: readings that stick, gains, two names, means, clocks, failed rows."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from evaluation.injection.traces import FEED_SIGNALS, FeedTrace, NodeTrace
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray


def stuck(trace: FeedTrace, rows: slice, *, feed: int, signals: tuple[str, ...] = FEED_SIGNALS) -> FeedTrace:
    """Return the trace with a feed whose readings, all or those named, repeat their last value."""
    repeated: dict[str, Any] = {name: _repeated(getattr(trace, name), rows, feed) for name in signals}
    return replace(trace, **repeated)


def node_stuck(trace: NodeTrace, rows: slice, *, node: int) -> NodeTrace:
    """Return the trace with a node whose watts repeat their last value at each of its readings."""
    return replace(trace, power_w=_repeated(trace.power_w, rows, node))


def gain(trace: FeedTrace, rows: slice, *, feed: int, times: float, signal: str = "power_w") -> FeedTrace:
    """Return the trace with one reading of a feed at `times` of what it is."""
    values = getattr(trace, signal).copy()
    values[rows, feed] *= times
    return replace(trace, **{signal: values})


def twin(trace: NodeTrace, *, node: int, of: int) -> NodeTrace:
    """Return the trace in which a node has the readings of another one: one meter under two names."""
    power_w = trace.power_w.copy()
    power_w[:, node] = power_w[:, of]
    return replace(trace, power_w=power_w)


def with_mean(trace: FeedTrace) -> FeedTrace:
    """Return the trace with a channel more: mean volts and amperes of all, and their watts summed, as analysers do."""
    return replace(
        trace,
        voltage_v=np.column_stack([trace.voltage_v, trace.voltage_v.mean(axis=1)]),
        current_a=np.column_stack([trace.current_a, trace.current_a.mean(axis=1)]),
        power_w=np.column_stack([trace.power_w, trace.total_w]),
    )


def failed_rows(trace: FeedTrace, rows: slice, *, reads: float = -1.0) -> FeedTrace:
    """Return the trace with rows in which every column is the number that stands for a failed reading."""
    values: dict[str, Any] = {name: getattr(trace, name).copy() for name in FEED_SIGNALS}
    for column in values.values():
        column[rows] = reads
    return replace(trace, **values)


def clock_off(trace: NodeTrace, *, node: int, by_s: float) -> NodeTrace:
    """Return the trace in which the stamps of one node are off by so many seconds."""
    own = ~np.isnan(trace.power_w[:, node])
    shifted_ns = trace.time_ns[own] + round(by_s * NS_PER_S)
    times_ns = np.union1d(trace.time_ns, shifted_ns)
    power_w = np.full((len(times_ns), len(trace.nodes)), math.nan)
    power_w[np.searchsorted(times_ns, trace.time_ns)] = trace.power_w
    power_w[:, node] = math.nan
    power_w[np.searchsorted(times_ns, shifted_ns), node] = trace.power_w[own, node]
    return replace(trace, time_ns=times_ns, power_w=power_w)


def _repeated(values: FloatArray, rows: slice, column: int) -> FloatArray:
    repeated = values.copy()
    before = values[: rows.start, column]
    known = before[np.isfinite(before)]
    part = repeated[rows, column]
    repeated[rows, column] = np.where(np.isfinite(part), known[-1] if known.size else math.nan, math.nan)
    return repeated
