"""Measures of the golden table: the rail, and what it does to the GPUs on it."""

import numpy as np

from physics.rail_classes import LEAST_RAIL_V
from physics.supply_path import GpuLoad, SupplyLoad, SupplyPath, highest_clock
from simulator.files.node import load_node
from simulator.golden.table import GoldenRow
from simulator.golden.traces import Traces, static_trace
from simulator.plant.bus import drop_rate_per_s
from telemetry.frames import FloatArray

METER_MS = 100  # assumption: what a hand-held meter's recording of minimum and maximum responds to
SENSOR_MS = 10  # window of the V100's power sensor, arXiv 2312.02741
SAMPLE_MS = 100  # ten samples a second, as `watch -n0.1` takes them
NEVER_S = 1e12  # instead of infinity, which JSON lacks


def static_v(traces: Traces, row: GoldenRow) -> float:
    """Return the rail under a steady load of `at` watts."""
    return float(static_trace(traces.run(row.run), _at(row)).voltage_v.mean())


def branch_a(traces: Traces, row: GoldenRow) -> float:
    """Return the current of the busiest branch under a steady load of `at` watts."""
    return float(static_trace(traces.run(row.run), _at(row)).current_a.mean(axis=0).max())


def lowest_v(traces: Traces, row: GoldenRow) -> float:
    """Return the lowest millisecond of the rail."""
    return float(traces.of(row.run).voltage_v.min())


def metered_low_v(traces: Traces, row: GoldenRow) -> float:
    """Return the lowest value that a meter shows."""
    return float(window_means(traces.of(row.run).voltage_v, METER_MS).min())


def metered_swing_v(traces: Traces, row: GoldenRow) -> float:
    """Return by how much a meter's value moves during a run."""
    return float(np.ptp(window_means(traces.of(row.run).voltage_v, METER_MS)))


def mean_drop_s(traces: Traces, row: GoldenRow) -> float:
    """Return the mean time to the first drop of any GPU."""
    per_s = drops_per_s(traces, row)
    return min(1.0 / per_s, NEVER_S) if per_s > 0.0 else NEVER_S


def drops_per_s(traces: Traces, row: GoldenRow) -> float:
    """Return how many drops per second to expect: the integral of the hazard of average parts over time."""
    trace = traces.of(row.run)
    hazard = load_node(traces.run(row.run).node).gpu.hazard
    none = np.zeros(trace.power_w.shape[1])
    rate = drop_rate_per_s(
        trace.voltage_v[:, None],
        trace.power_w / trace.voltage_v[:, None],
        offset_v=none,
        contact_mohm=none,
        hazard=hazard,
    )
    return float(rate.sum(axis=1).mean())


def supplies_on(traces: Traces, row: GoldenRow) -> float:
    """Return how many supplies deliver at the end of a run."""
    return float(traces.of(row.run).state.supplies.on.sum())


def source_ratio(traces: Traces, row: GoldenRow) -> float:
    """Return the source resistance, from a straight line through ten samples a second of V and I, over the true one."""
    trace = traces.of(row.run)
    _, slope_ohm = _line(traces, row)
    units = trace.node.supply.units
    truth_mohm = 1.0 / sum(1.0 / unit.branch_mohm for unit in units) + trace.node.supply.bus_mohm
    return 1000.0 * slope_ohm / truth_mohm


def safe_clock_mhz(traces: Traces, row: GoldenRow) -> float:
    """Return the clock cap that the rules compute for 11.40 V from what the rail and the boards showed."""
    trace = traces.of(row.run)
    open_v, source_ohm = _line(traces, row)
    supply = trace.node.supply
    clocks = trace.node.gpu.clocks
    path = SupplyPath(
        open_circuit_v=open_v,
        source_resistance_ohm=source_ohm,
        transient_ohm=supply.transient_mohm / 1000.0 / len(supply.units),
    )
    shown_w = window_means(trace.power_w, SENSOR_MS)
    node_w = window_means(trace.node_w, SENSOR_MS)
    gpus = tuple(
        GpuLoad(
            max_clock_mhz=clocks.max_mhz, clock_mhz=clocks.max_mhz, power_high_w=float(high), power_low_w=float(low)
        )
        for high, low in zip(np.quantile(shown_w, 0.99, axis=0), np.quantile(shown_w, 0.05, axis=0), strict=True)
    )
    load = SupplyLoad(
        power_high_w=float(np.quantile(node_w, 0.99)),
        power_low_w=float(np.quantile(node_w, 0.05)),
        share_ratio=1.0,
        gpus=gpus,
    )
    return float(highest_clock(path, load, limit_v=LEAST_RAIL_V, clocks_mhz=clocks.supported_mhz).setting)


def window_means(values: FloatArray, n_ms: int) -> FloatArray:
    """Return the mean of each window of `n_ms`, which follow one another; a rest at the end is left out."""
    whole = len(values) // n_ms * n_ms
    means: FloatArray = values[:whole].reshape(-1, n_ms, *values.shape[1:]).mean(axis=1)
    return means


def _line(traces: Traces, row: GoldenRow) -> tuple[float, float]:
    """Return open-circuit voltage and resistance by least squares, from one millisecond in a tenth of a second."""
    trace = traces.of(row.run)
    current_a = trace.current_a.sum(axis=1)[::SAMPLE_MS]
    columns = np.stack([np.ones_like(current_a), -current_a], axis=1)
    (open_v, slope_ohm), *_ = np.linalg.lstsq(columns, trace.voltage_v[::SAMPLE_MS], rcond=None)
    return float(open_v), float(slope_ohm)


def _at(row: GoldenRow) -> float:
    if row.at is None:
        raise ValueError(f"row {row.id}: at, the load in watts")
    return row.at
