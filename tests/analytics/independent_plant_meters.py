"""Meters of the independent plant, and the recordings that they make."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec
from tests.analytics.independent_plant import HEALTHY, Circuit, Fault, Plant, solve, spread
from tests.analytics.independent_plant_load import Load, load_of

START_NS = 1_760_000_400_000_000_000


def _averaged(values: FloatArray, at_s: FloatArray, grid_s: float, window_s: float) -> FloatArray:
    """Return the mean over `window_s` up to each time, ``(n_rows, n)``."""
    sums = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values - values[0], axis=0)))
    last = np.clip(np.round(at_s / grid_s).astype(np.int64) + 1, 1, len(values))
    first = np.clip(last - max(round(window_s / grid_s), 1), 0, len(values) - 1)
    first = np.minimum(first, last - 1)
    return np.asarray(values[0] + (sums[last] - sums[first]) / (last - first)[:, np.newaxis])


def _on_grid(values: FloatArray, step: float) -> FloatArray:
    return np.asarray(np.round(values / step) * step)


def read_meters(plant: Plant, seed: int, time_s: FloatArray, circuit: Circuit, fault: Fault) -> Frame:
    """Return the rows of the `supply` table."""
    rng = np.random.default_rng([seed, 3])
    meter, grid_s, n = plant.meter, time_s[1] - time_s[0], plant.n_supplies
    tick_s = np.arange(0.2, time_s[-1] - 0.2, 1.0 / meter.rate_hz)
    tick_s = tick_s + meter.jitter_ratio / meter.rate_hz * rng.uniform(0.0, 1.0, len(tick_s))
    after = tick_s >= fault.at_s
    true_v = circuit.output_v if meter.at_output else circuit.bus_v
    volts = _averaged(true_v, tick_s, grid_s, meter.window_s)
    late_s = np.where(after, meter.late_s + fault.skew_s, meter.late_s)
    amps = _averaged(circuit.current_a, tick_s, grid_s, meter.window_s)
    amps[:, 1:] = _averaged(circuit.current_a, tick_s - meter.late_s, grid_s, meter.window_s)[:, 1:]
    amps[:, 0] = _averaged(circuit.current_a, tick_s - late_s, grid_s, meter.window_s)[:, 0]
    shape = volts.shape
    volts = volts * meter.gain_v + meter.offset_v + meter.noise_v * rng.standard_normal(shape)
    amps = amps * meter.gain_a + meter.offset_a + meter.noise_a * rng.standard_normal(shape)
    volts, amps = _on_grid(volts, meter.v_step), _on_grid(amps, meter.a_step)
    columns = {"voltage_v": volts, "current_a": amps}
    if meter.extremes:
        spans = [_span(values, tick_s, grid_s, meter.rate_hz) for values in (true_v, circuit.current_a)]
        columns["voltage_min_v"] = np.minimum(
            _on_grid(spans[0][0] * meter.gain_v + meter.offset_v, meter.v_step), volts
        )
        columns["current_max_a"] = np.maximum(_on_grid(spans[1][1] * meter.gain_a + meter.offset_a, meter.a_step), amps)
    if fault.stuck_v and after.any():
        volts[after, 0] = volts[after.argmax(), 0]
    if fault.stuck_a and after.any():
        amps[after, 0] = amps[after.argmax(), 0]
    values = np.stack(list(columns.values()), axis=2)
    values[rng.random(shape) < meter.dropped_ratio] = np.nan
    if fault.silent:
        values[after, 0] = np.nan
    tags: list[tuple[str, str]] = []
    if plant.tagged:
        tags += [("nominal_v", f"{plant.nominal_v:g}"), ("nominal_from", "configuration")]
    if plant.rated_w is not None:
        tags += [("rated_w", f"{plant.rated_w:g}"), ("rated_from", "supply")]
    members = tuple(
        Entity(kind=EntityKind.SUPPLY, key=f"psu{one}", name=f"psu{one}", tags=tuple(tags)) for one in range(n)
    )
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=members, signals=tuple(columns))
    return _frame(spec, tick_s, values)


def _span(values: FloatArray, at_s: FloatArray, grid_s: float, rate_hz: float) -> tuple[FloatArray, FloatArray]:
    """Return lowest and highest values since the row before."""
    last = np.clip(np.round(at_s / grid_s).astype(np.int64) + 1, 1, len(values))
    first = np.concatenate(([max(last[0] - round(1.0 / rate_hz / grid_s), 0)], last[:-1]))
    first = np.minimum(first, last - 1)
    return np.minimum.reduceat(values, first, axis=0), np.maximum.reduceat(values, first, axis=0)


def _frame(spec: TableSpec, at_s: FloatArray, values: FloatArray) -> Frame:
    fresh: MaskArray = np.isfinite(values)
    return Frame(spec=spec, time_ns=START_NS + np.round(at_s * NS_PER_S).astype(np.int64), values=values, fresh=fresh)


def read_gpus(plant: Plant, seed: int, load: Load, rate_hz: float) -> Frame:
    """Return the rows of the GPUs' table."""
    rng = np.random.default_rng([seed, 4])
    at_s = np.arange(0.2, load.time_s[-1] - 0.2, 1.0 / rate_hz)
    seen_w = _averaged(load.gpu_w, at_s, load.grid_s, 0.1)
    slow_w = _averaged(load.gpu_w, at_s, load.grid_s, 40.0)
    inlet_c = load.inlet_c[np.clip(np.round(at_s / load.grid_s).astype(np.int64), 0, len(load.time_s) - 1), np.newaxis]
    per_w = 38.0 / plant.gpu_w * (1.0 + spread(rng, plant.n_gpus, 0.04))
    busy = seen_w > 0.3 * plant.gpu_w
    columns = {
        "power_w": seen_w * (1.0 + spread(rng, plant.n_gpus, 0.02)),
        "sm_clock_mhz": np.where(busy, 1755.0 + 15.0 * rng.integers(-1, 2, seen_w.shape), 345.0),
        "gpu_temp_c": np.round(inlet_c + per_w * slow_w + 0.3 * rng.standard_normal(seen_w.shape)),
        "throttle_reasons": np.where(busy, 0.0, 1.0),
    }
    members = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{one}", name=f"gpu{one}") for one in range(plant.n_gpus))
    spec = TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=members, signals=tuple(columns))
    return _frame(spec, at_s, np.stack(list(columns.values()), axis=2))


@dataclass(frozen=True, kw_only=True)
class NodeRecording:
    """The tables of one node and its topology."""

    frames: tuple[Frame, ...]
    topology: Topology


def record(
    plant: Plant, seed: int, *, seconds: float, fault: Fault = HEALTHY, jobs: tuple[str, ...] = (), gpu_hz: float = 1.0
) -> NodeRecording:
    """Return a recording of so many seconds."""
    load = load_of(plant, seed, seconds=seconds, jobs=jobs, fault=fault)
    circuit = solve(plant, load.time_s, load.node_w, load.inlet_c, fault)
    frames = read_meters(plant, seed, load.time_s, circuit, fault), read_gpus(plant, seed, load, gpu_hz)
    return NodeRecording(frames=frames, topology=one_bus([one for frame in frames for one in frame.spec.entities]))


def one_bus(parts: Sequence[Entity]) -> Topology:
    """Return the topology of a node in which every supply feeds every GPU."""
    node = Entity(kind=EntityKind.NODE, key="other", name="other")
    edges = [(node.id, part.id) for part in parts]
    feeds, fed = ([one for one in parts if one.kind is kind] for kind in (EntityKind.SUPPLY, EntityKind.GPU))
    return Topology(entities=(node, *parts), edges=(*edges, *((feed.id, gpu.id) for feed in feeds for gpu in fed)))
