"""Faults of feeds: sags, outages, shares that move, contacts, loads that are too high, supplies that waste more.

Supplies regulate: the node draws what it needs, whatever its feeds do, and what one feed does not carry the others do.
"""

from dataclasses import replace

import numpy as np

from evaluation.injection.traces import FeedTrace, others, ramp
from telemetry.frames import FloatArray


def sag(trace: FeedTrace, rows: slice, *, left: float, feed: int | None = None) -> FeedTrace:
    """Return the trace with the voltage at `left` of what it was, on all feeds or on one; the power stays."""
    columns = slice(None) if feed is None else slice(feed, feed + 1)
    volts, amps = trace.voltage_v.copy(), trace.current_a.copy()
    volts[rows, columns] *= left
    amps[rows, columns] /= left
    return replace(trace, voltage_v=volts, current_a=amps)


def outage(trace: FeedTrace, rows: slice, *, feed: int) -> FeedTrace:
    """Return the trace with one feed at 0 V; the others take over what it carried, where there are any."""
    volts = trace.voltage_v.copy()
    volts[rows, feed] = 0.0
    return replace(loss(trace, rows, feed=feed), voltage_v=volts)


def loss(trace: FeedTrace, rows: slice, *, feed: int) -> FeedTrace:
    """Return the trace with one feed that carries nothing, at its usual voltage; the others take it over."""
    return moved_share(trace, rows, feed=feed, by=-1.0)


def moved_share(trace: FeedTrace, rows: slice, *, feed: int, by: float, over_s: float = 0.0) -> FeedTrace:
    """Return the trace with the power of one feed changed by a share of itself; the others carry what it does not.

    With `over_s` it drifts there in so many seconds. The voltages stay, the currents follow the power.
    """
    moved = by * ramp(trace.time_ns, rows, over_s) * trace.power_w[rows, feed]
    rest = others(trace.power_w.shape[1], feed)
    factors = np.ones_like(trace.power_w[rows])
    factors[:, feed] = 1.0 + by * ramp(trace.time_ns, rows, over_s)
    if rest:
        total = trace.power_w[rows][:, rest].sum(axis=1)
        taken = np.divide(-moved, total, out=np.zeros_like(total), where=total > 0.0)
        factors[:, rest] += taken[:, np.newaxis]
    return _scaled(trace, rows, factors)


def resistance(trace: FeedTrace, rows: slice, *, feed: int, ohm: float) -> FeedTrace:
    """Return the trace with a contact of so many ohm more on one feed: V' = V - ohm x I; the power stays."""
    volts, amps = trace.voltage_v.copy(), trace.current_a.copy()
    before = volts[rows, feed].copy()
    volts[rows, feed] = before - ohm * amps[rows, feed]
    amps[rows, feed] *= np.divide(before, volts[rows, feed], out=np.ones_like(before), where=volts[rows, feed] > 0.0)
    return replace(trace, voltage_v=volts, current_a=amps)


def over_power(trace: FeedTrace, rows: slice, *, times: float) -> FeedTrace:
    """Return the trace with `times` the load on all feeds."""
    return _scaled(trace, rows, np.full_like(trace.power_w[rows], times))


def less_efficient(trace: FeedTrace, rows: slice, *, feed: int, by: float) -> FeedTrace:
    """Return the trace with a feed whose supplies deliver as much with an efficiency that is lower by a share `by`."""
    factors = np.ones_like(trace.power_w[rows])
    factors[:, feed] = 1.0 / (1.0 - by)
    return _scaled(trace, rows, factors)


def gpu_left(trace: FeedTrace, rows: slice, *, gpus: int, idle_w: float) -> FeedTrace:
    """Return the trace without the part of one of `gpus` GPUs in what the server draws above `idle_w`."""
    total = trace.total_w[rows]
    lost = np.maximum(total - idle_w, 0.0) / gpus
    left = np.divide(total - lost, total, out=np.ones_like(total), where=total > 0.0)
    return _scaled(trace, rows, np.broadcast_to(left[:, np.newaxis], trace.power_w[rows].shape))


def watts_only(trace: FeedTrace) -> FeedTrace:
    """Return the trace as a meter without volts and amperes shows it."""
    unknown = np.full_like(trace.power_w, np.nan)
    return replace(trace, voltage_v=unknown, current_a=unknown)


def _scaled(trace: FeedTrace, rows: slice, factors: FloatArray) -> FeedTrace:
    """Return the trace with power and current of some rows times these factors ``(n_rows, n_feeds)``."""
    power_w, amps = trace.power_w.copy(), trace.current_a.copy()
    power_w[rows] *= factors
    amps[rows] *= factors
    return replace(trace, power_w=power_w, current_a=amps)
