"""Faults of nodes that show in the watts of the whole node: a GPU that leaves, a node unlike its siblings, waste."""

from dataclasses import replace

import numpy as np

from evaluation.injection.traces import NodeTrace
from telemetry.frames import FloatArray


def gpu_left(trace: NodeTrace, rows: slice, *, node: int, gpus: int, idle_w: float) -> NodeTrace:
    """Return the trace without the part of one of `gpus` GPUs in what a node draws above `idle_w`."""
    own = trace.power_w[rows, node]
    return _with(trace, rows, node, own - np.maximum(own - idle_w, 0.0) / gpus)


def unlike(trace: NodeTrace, rows: slice, *, node: int, times: float) -> NodeTrace:
    """Return the trace with a node that draws `times` what it did."""
    return _with(trace, rows, node, trace.power_w[rows, node] * times)


def less_efficient(trace: NodeTrace, rows: slice, *, node: int, by: float) -> NodeTrace:
    """Return the trace with a node whose supplies have an efficiency that is lower by a share `by`."""
    return unlike(trace, rows, node=node, times=1.0 / (1.0 - by))


def _with(trace: NodeTrace, rows: slice, node: int, watts: FloatArray) -> NodeTrace:
    power_w = trace.power_w.copy()
    power_w[rows, node] = watts
    return replace(trace, power_w=power_w)
