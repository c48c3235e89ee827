"""Meters of the independent plant, and the recordings that they make."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec
from tests.analytics.independent_plant import HEALTHY, Circuit, Fault, Meter, Plant, solve, spread
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
    tick_s = np.arange(0.2, time_s[-1] - 0.2 - (1.0 / meter.rate_hz if meter.turns else 0.0), 1.0 / meter.rate_hz)
    tick_s = tick_s + meter.jitter_ratio / meter.rate_hz * rng.uniform(0.0, 1.0, len(tick_s))
    if meter.turns:
        tick_s = np.sort(tick_s)
    after = tick_s >= fault.at_s
    true_v = circuit.output_v if meter.at_output else circuit.bus_v
    slots = _slots(meter, n)
    volts = _averaged_at(true_v, tick_s[:, np.newaxis] + slots[:, 0], grid_s, meter.window_s)
    late_s = np.full((len(tick_s), n), meter.late_s)
    late_s[after, 0] += fault.skew_s
    amps = _averaged_at(circuit.current_a, tick_s[:, np.newaxis] + slots[:, 1] - late_s, grid_s, meter.window_s)
    shape = volts.shape
    volts = volts * meter.gain_v + meter.offset_v + meter.noise_v * rng.standard_normal(shape)
    amps = amps * meter.gain_a + meter.offset_a + meter.noise_a * rng.standard_normal(shape)
    volts, amps = _shown(volts, meter.v_step, meter), _shown(amps, meter.a_step, meter)
    columns = {"voltage_v": volts, "current_a": amps}
    if meter.extremes:
        spans = [_span(values, tick_s, grid_s, meter.rate_hz) for values in (true_v, circuit.current_a)]
        columns["voltage_min_v"] = np.minimum(
            _on_grid(spans[0][0] * meter.gain_v + meter.offset_v, meter.v_step), volts
        )
        columns["current_max_a"] = np.maximum(_on_grid(spans[1][1] * meter.gain_a + meter.offset_a, meter.a_step), amps)
    if meter.power_gain is not None:
        # LINEAR11: eleven bits of mantissa, so 2 W a step from 1024 W on. Averaged longer than voltage and current.
        watts = _averaged(true_v * circuit.current_a, tick_s, grid_s, 4.0 * meter.window_s + 0.1) * meter.power_gain
        columns["power_w"] = _on_grid(watts, 1.0 if watts.max() < 1024.0 else 2.0)
    if fault.stuck_v and after.any():
        volts[after, 0] = volts[after.argmax(), 0]
    if fault.stuck_a and after.any():
        amps[after, 0] = amps[after.argmax(), 0]
    values = np.stack(list(columns.values()), axis=2)
    values[rng.random(shape) < meter.dropped_ratio] = np.nan
    if fault.silent:
        values[after, 0] = np.nan
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=supplies_of(plant), signals=tuple(columns))
    return _in_turn(spec, tick_s, values, meter) if meter.turns else _frame(spec, tick_s, values)


def supplies_of(plant: Plant) -> tuple[Entity, ...]:
    """Return the supplies of a node, with the tags that it describes."""
    tags: list[tuple[str, str]] = []
    if plant.tagged:
        tags += [("nominal_v", f"{plant.nominal_v:g}"), ("nominal_from", "configuration")]
    if plant.rated_w is not None:
        tags += [("rated_w", f"{plant.rated_w:g}"), ("rated_from", "supply")]
    return tuple(
        Entity(kind=EntityKind.SUPPLY, key=f"psu{one}", name=f"psu{one}", tags=tuple(tags))
        for one in range(plant.n_supplies)
    )


def _slots(meter: Meter, n: int) -> FloatArray:
    """Return how much later than a tick voltage and current of each supply are read, ``(n_supplies, 2)``."""
    places = np.zeros((n, 2)) if not meter.turns else np.repeat(np.arange(n)[:, np.newaxis], 2, axis=1) * meter.turns
    places[:, 1] += meter.turns == 2
    return np.asarray(places / (meter.rate_hz * n * max(meter.turns, 1)))


def _in_turn(spec: TableSpec, tick_s: FloatArray, values: FloatArray, meter: Meter) -> Frame:
    """Return rows that hold one new supply, or one new reading, each; the others repeat what they showed."""
    n = len(spec.entities)
    turns = n * meter.turns
    at_s = (tick_s[:, np.newaxis] + np.arange(turns) / (meter.rate_hz * turns)).ravel()
    shown = np.full((len(at_s), *spec.shape), np.nan)
    fresh = np.zeros(shown.shape, dtype=np.bool_)
    for supply in range(n):
        for column, name in enumerate(spec.signals):
            slot = supply * meter.turns + (meter.turns == 2 and name.startswith("current"))
            own = values[:, supply, column]
            held = np.repeat(own, turns)
            shown[slot:, supply, column] = held[: len(held) - slot]
            fresh[slot::turns, supply, column] = np.isfinite(own)
    time_ns = START_NS + np.round(at_s * NS_PER_S).astype(np.int64)
    order = np.argsort(time_ns, kind="stable")
    return Frame(spec=spec, time_ns=time_ns[order], values=shown[order], fresh=fresh[order])


def _shown(values: FloatArray, step: float, meter: Meter) -> FloatArray:
    counts = _on_grid(values, step)
    return np.round(counts, 3) if meter.milli else counts


def _averaged_at(values: FloatArray, at_s: FloatArray, grid_s: float, window_s: float) -> FloatArray:
    """Return the mean over `window_s` up to each time, times of shape ``(n_rows, n)``."""
    columns = [_averaged(values[:, [one]], at_s[:, one], grid_s, window_s) for one in range(values.shape[1])]
    return np.concatenate(columns, axis=1)


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
    circuit = solve(plant, load.time_s, load.bus_w, load.inlet_c, fault)
    frames = [read_meters(plant, seed, load.time_s, circuit, fault), read_gpus(plant, seed, load, gpu_hz)]
    if plant.mains_v is not None:
        frames.append(read_mains(plant, seed, load, fault))
    return NodeRecording(frames=tuple(frames), topology=wired(plant, [frame.spec.entities for frame in frames]))


def read_mains(plant: Plant, seed: int, load: Load, fault: Fault) -> Frame:
    """Return the rows of the supplies' own meters of their input, once a second."""
    rng = np.random.default_rng([seed, 6])
    at_s = np.arange(0.3, load.time_s[-1] - 0.2, 1.0)
    usual_v = plant.mains_v or 230.0
    wander = 1.0 + 0.005 * np.sin(at_s / 700.0 + rng.uniform(0.0, 6.0))
    low = fault.over(at_s, fault.mains_ratio)[:, np.newaxis]
    if fault.dead_feed is not None:
        low = np.where(plant.feed_of == fault.dead_feed, low, 1.0)
    mains_v = usual_v * wander[:, np.newaxis] * low * (1.0 + spread(rng, plant.n_supplies, 0.003))
    values = _on_grid(mains_v + 0.3 * rng.standard_normal(mains_v.shape), 0.25)
    spec = TableSpec(
        name="supply_slow", kind=EntityKind.SUPPLY, entities=supplies_of(plant), signals=("input_voltage_v",)
    )
    return _frame(spec, at_s, values[:, :, np.newaxis])


def wired(plant: Plant, tables: Sequence[Sequence[Entity]]) -> Topology:
    """Return the topology of a node in which every supply feeds the GPUs of its bus."""
    node = Entity(kind=EntityKind.NODE, key="other", name="other")
    parts = list(dict.fromkeys(one for table in tables for one in table))
    feeds, fed = ([one for one in parts if one.kind is kind] for kind in (EntityKind.SUPPLY, EntityKind.GPU))
    edges = [(node.id, part.id) for part in parts]
    pairs = zip(feeds, plant.bus_of, strict=True), zip(fed, plant.gpu_bus_of, strict=True)
    gpus = list(pairs[1])
    edges += [(feed.id, gpu.id) for feed, own in pairs[0] for gpu, bus in gpus if bus == own]
    return Topology(entities=(node, *parts), edges=tuple(edges))


def one_bus(parts: Sequence[Entity]) -> Topology:
    """Return the topology of a node in which every supply feeds every GPU."""
    node = Entity(kind=EntityKind.NODE, key="other", name="other")
    edges = [(node.id, part.id) for part in parts]
    feeds, fed = ([one for one in parts if one.kind is kind] for kind in (EntityKind.SUPPLY, EntityKind.GPU))
    return Topology(entities=(node, *parts), edges=(*edges, *((feed.id, gpu.id) for feed in feeds for gpu in fed)))
