"""Faults put into chains: who has one, what the trace is then, in the steps of its meters, and who may be named for it.

The equations are those of `evaluation.injection`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evaluation.injection import feeds, meters, nodes, pins
from evaluation.injection.traces import FeedTrace, NodeTrace
from evaluation.power.chains import FIELDS, Chain
from evaluation.power.differences import StepFit, fit_steps, usual_current
from evaluation.power.pin_trace import PinTrace
from evaluation.power.plan import PowerFault, Put
from evaluation.power.recordings import Trace
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.frames import FloatArray

# heuristic: below a tenth of the server's power, a feed is a standby of which nothing shows.
_LEAST_SHARE = 0.1
# heuristic: a resistance whose standard error is larger than a tenth is not known well enough to add a tenth to it.
MAX_ERROR = 0.1
# What a machine draws without work and under load: the least and the most, but for single readings.
_IDLE_PERCENTILE, _LOADED_PERCENTILE = 1.0, 95.0
# heuristic: 390 recorded servers of 1 to 8 GPUs idle at 25 to 60 % of their load. One that never drew less than two
# thirds has not been seen without work, and an eighth of what it drew above its least is no GPU.
_IDLE_MOST = 2.0 / 3.0
_MOST_DECIMALS = 6
# heuristic: 0.7 m of 16 AWG, 13.2 mΩ/m, and two contacts of a few mΩ. What moves between pins depends on the
# ratio of paths alone.
PIN_PATH_OHM = 0.015


def places_of(chain: Chain, fault: PowerFault) -> tuple[int, ...]:
    """Return the columns of a chain that can have a fault; of faults of the whole server, column 0; empty if none."""
    trace = chain.trace
    if isinstance(trace, PinTrace):
        return (0,) if fault.put is Put.STUCK else tuple(range(PIN_COUNT))
    if isinstance(trace, NodeTrace):
        if fault.put is Put.GPU_LEFT:
            return tuple(node for node in range(len(trace.nodes)) if has_idled(trace.power_w[:, node]))
        least = {Put.UNLIKE: 3, Put.TWIN: 2}.get(fault.put, 1)
        return tuple(range(len(trace.nodes))) if len(trace.nodes) >= least else ()
    if fault.put in {Put.SAG, Put.GPU_LEFT}:
        return (0,) if fault.put is Put.SAG or has_idled(trace.total_w) else ()
    return _feeds_with(trace, fault.put)


def _feeds_with(trace: FeedTrace, put: Put) -> tuple[int, ...]:
    """Return the feeds that can have a fault of one feed."""
    loaded = _loaded_feeds(trace)
    if put is Put.RESISTANCE:
        return tuple(feed for feed in loaded if known_resistance(trace, feed) is not None)
    if put in {Put.LOSS, Put.SHARE, Put.EFFICIENCY}:
        return loaded if trace.power_w.shape[1] > 1 else ()
    return loaded


def known_resistance(trace: FeedTrace, feed: int) -> StepFit | None:
    """Return the resistance of a feed, None where its standard error is too large."""
    amps = trace.current_a[:, feed]
    fit = fit_steps(trace.time_ns, trace.voltage_v[:, feed], amps, usual_a=usual_current(amps))
    return fit if fit is not None and 0.0 < fit.error_ohm <= MAX_ERROR * fit.ohm else None


def with_fault(chain: Chain, fault: PowerFault, rows: slice, place: int) -> Trace:
    """Return the trace of a chain with a fault in some rows, its readings in the steps that they had."""
    trace = chain.trace
    if isinstance(trace, PinTrace):
        return _in_pins(trace, fault, rows, place)
    put = _in_nodes(trace, fault, rows, place) if isinstance(trace, NodeTrace) else _in_feeds(trace, fault, rows, place)
    return in_steps(put, trace)


def targets_of(trace: Trace, fault: PowerFault, place: int) -> frozenset[str]:
    """Return the entities by any of which an answer names the place of a fault; the empty name is the whole server."""
    if isinstance(trace, PinTrace):
        return frozenset(("", f"pin{place + 1}"))
    if isinstance(trace, NodeTrace):
        other = (trace.nodes[other_node(trace, place)],) if fault.put is Put.TWIN else ()
        return frozenset(("", trace.nodes[place], *other))
    if fault.put in {Put.EFFICIENCY, Put.RESISTANCE, Put.STUCK}:
        return frozenset(("", f"feed{place}"))
    return frozenset(("", *(f"feed{feed}" for feed in range(trace.power_w.shape[1]))))


def other_node(trace: NodeTrace, node: int) -> int:
    """Return the node whose readings a twin has: the next one."""
    return (node + 1) % len(trace.nodes)


def idle_w(watts: FloatArray) -> float:
    """Return the power of a machine without work: the least that it drew, but for single readings."""
    return float(np.nanpercentile(watts, _IDLE_PERCENTILE))


def has_idled(watts: FloatArray) -> bool:
    """Return True where a machine was seen without work, so that a GPU's part of its power is known."""
    return idle_w(watts) < _IDLE_MOST * float(np.nanpercentile(watts, _LOADED_PERCENTILE))


def in_steps(put: FeedTrace | NodeTrace, trace: FeedTrace | NodeTrace) -> FeedTrace | NodeTrace:
    """Return a trace rounded to the decimals in which its readings came, so that no digit betrays a fault."""
    rounded = {
        field: np.round(getattr(put, field), decimals_of(getattr(trace, field))) for field in FIELDS[type(trace)]
    }
    return replace(put, **rounded)


def decimals_of(values: FloatArray) -> int:
    """Return the number of decimals in which all of some values are written, six at most."""
    known = values[np.isfinite(values)]
    for decimals in range(_MOST_DECIMALS):
        if np.array_equal(np.round(known, decimals), known):
            return decimals
    return _MOST_DECIMALS


def _loaded_feeds(trace: FeedTrace) -> tuple[int, ...]:
    mean_w = np.nanmean(trace.power_w, axis=0)
    return tuple(np.flatnonzero(mean_w >= _LEAST_SHARE * mean_w.sum()).tolist())


def _in_feeds(trace: FeedTrace, fault: PowerFault, rows: slice, feed: int) -> FeedTrace:
    def resistance() -> FeedTrace:
        known = known_resistance(trace, feed)
        if known is None:
            raise ValueError(f"{trace.name}: feed {feed} has no known resistance")
        return feeds.resistance(trace, rows, feed=feed, ohm=fault.size * known.ohm)

    puts: dict[Put, Callable[[], FeedTrace]] = {
        Put.RESISTANCE: resistance,
        Put.SAG: lambda: feeds.sag(trace, rows, left=1.0 - fault.size),
        Put.OUTAGE: lambda: feeds.outage(trace, rows, feed=feed),
        Put.LOSS: lambda: feeds.loss(trace, rows, feed=feed),
        Put.SHARE: lambda: feeds.moved_share(trace, rows, feed=feed, by=-fault.size),
        Put.EFFICIENCY: lambda: feeds.less_efficient(trace, rows, feed=feed, by=fault.size),
        Put.STUCK: lambda: meters.stuck(trace, rows, feed=feed),
        Put.GPU_LEFT: lambda: feeds.gpu_left(trace, rows, gpus=round(fault.size), idle_w=idle_w(trace.total_w)),
    }
    return puts[fault.put]()


def _in_nodes(trace: NodeTrace, fault: PowerFault, rows: slice, node: int) -> NodeTrace:
    def gpu_left() -> NodeTrace:
        idle = idle_w(trace.power_w[:, node])
        return nodes.gpu_left(trace, rows, node=node, gpus=round(fault.size), idle_w=idle)

    puts: dict[Put, Callable[[], NodeTrace]] = {
        Put.UNLIKE: lambda: nodes.unlike(trace, rows, node=node, times=1.0 + fault.size),
        Put.EFFICIENCY: lambda: nodes.less_efficient(trace, rows, node=node, by=fault.size),
        Put.GPU_LEFT: gpu_left,
        Put.STUCK: lambda: meters.node_stuck(trace, rows, node=node),
        Put.TWIN: lambda: meters.twin(trace, node=node, of=other_node(trace, node)),
    }
    return puts[fault.put]()


def _in_pins(trace: PinTrace, fault: PowerFault, rows: slice, pin: int) -> PinTrace:
    healthy = pins.Pins(voltage_v=trace.voltage_v[rows], current_a=trace.current_a[rows])
    puts: dict[Put, Callable[[], pins.Pins]] = {
        Put.OPEN_PIN: lambda: pins.open_pin(healthy, pin),
        Put.PIN_CONTACT: lambda: pins.worse_contact(healthy, pin, ohm=fault.size * PIN_PATH_OHM, path_ohm=PIN_PATH_OHM),
        Put.STUCK: lambda: pins.stuck(healthy),
    }
    put = puts[fault.put]()
    volts, amps = trace.voltage_v.copy(), trace.current_a.copy()
    volts[rows], amps[rows] = put.voltage_v, put.current_a
    return replace(trace, voltage_v=volts, current_a=amps)
