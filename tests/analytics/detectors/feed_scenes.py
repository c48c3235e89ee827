"""Feeds of alternating current as an analyser at the wall reads them, once a second, and faults put into them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.records import Finding
from tests.analytics.scenes import frame_of, supply

SERVER = Entity(kind=EntityKind.NODE, key="server", name="server")


def feed(number: int) -> Entity:
    return Entity(kind=EntityKind.SUPPLY, key=f"feed{number}", name=f"feed{number}")


def server_of(n_feeds: int) -> Topology:
    """Return a server of which only the feeds are read."""
    feeds = [feed(number) for number in range(n_feeds)]
    return Topology(entities=(SERVER, *feeds), edges=tuple((SERVER.id, one.id) for one in feeds))


def load_of(rows: int, *, idle_w: float = 300.0, loaded_w: float = 600.0, seed: int = 1) -> FloatArray:
    """A minute of idling, and then a load that moves by two per cent."""
    noise = 1.0 + 0.02 * np.random.default_rng(seed).standard_normal(rows)
    return np.where(np.arange(rows) < 60, idle_w, loaded_w) * noise


def volts_of(rows: int, n_feeds: int, *, volts: float, seed: int = 2) -> FloatArray:
    """Volts that wander by some hundredths of a volt, in steps of the analyser's 0.01 V."""
    moves = 0.03 * np.random.default_rng(seed).standard_normal((rows, n_feeds))
    return np.round(volts + np.cumsum(moves, axis=0) * 0.1 + moves, 2)


def feeds_frame(power_w: FloatArray, voltage_v: FloatArray, current_a: FloatArray | None = None) -> Frame:
    """Table of feeds, arrays of shape ``(n_rows, n_feeds)``; the current is what the power needs unless given."""
    needed_a = power_w / np.where(voltage_v > 0.0, voltage_v, 1.0)
    columns = {
        "voltage_v": voltage_v,
        "current_a": np.round(needed_a if current_a is None else current_a, 3),
        "power_w": np.round(power_w, 1),
    }
    members = tuple(feed(number) for number in range(power_w.shape[1]))
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=1.0)


def sticking(seed: int) -> Frame:
    """Two feeds, 400 rows, with a gap; the meter of the first one sticks for a minute and moves again."""
    power_w = np.repeat(load_of(400, seed=seed)[:, np.newaxis], 2, axis=1)
    voltage_v = volts_of(400, 2, volts=206.0, seed=seed)
    voltage_v[250:310, 0] = voltage_v[249, 0]
    voltage_v[120:125] = np.nan
    members = (supply(0), supply(1))
    columns = {"voltage_v": voltage_v, "current_a": power_w / 206.0, "power_w": power_w}
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=1.0)


def _pair(power_w: FloatArray, seed: int, *, gains: FloatArray | None = None) -> Frame:
    """Two feeds of 206 V with a power factor of 0.96; the watts of the meter times `gains`."""
    voltage_v = volts_of(len(power_w), 2, volts=206.0, seed=seed + 50)
    columns = {
        "voltage_v": voltage_v,
        "current_a": power_w / voltage_v / 0.96,
        "power_w": power_w * (1.0 if gains is None else gains),
    }
    return frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=1.0)


def _loads(seed: int) -> FloatArray:
    """Watts of two feeds that share a load by 52 to 48, 400 rows."""
    noise = 1.0 + 0.001 * np.random.default_rng(seed + 90).standard_normal((400, 2))
    watts: FloatArray = load_of(400, loaded_w=1200.0, seed=seed)[:, np.newaxis] * np.array([0.52, 0.48]) * noise
    return watts


def lost(seed: int) -> Frame:
    power_w = _loads(seed)
    power_w[300:340, 1] += power_w[300:340, 0]
    power_w[300:340, 0] = 0.0
    return _pair(power_w, seed)


def unbalanced(seed: int) -> Frame:
    power_w = _loads(seed)
    moved = 0.1 * power_w[230:310, 0]
    power_w[230:310, 0] -= moved
    power_w[230:310, 1] += moved
    return _pair(power_w, seed)


def off_factor(seed: int) -> Frame:
    gains = np.ones((400, 2))
    gains[230:310, 1] = 1.15
    return _pair(_loads(seed), seed, gains=gains)


def one_meter(seed: int) -> Frame:
    power_w = _loads(seed)
    frame = _pair(power_w, seed)
    values = frame.values.copy()
    values[:350, 1] = values[:350, 0]
    return replace(frame, values=values)


def overloaded(seed: int) -> Frame:
    power_w = np.repeat(load_of(400, seed=seed)[:, np.newaxis], 2, axis=1) / 2.0
    power_w[320:370] *= 1.2
    return _pair(power_w, seed)


def one_gpu_less(seed: int) -> Frame:
    power_w = np.repeat(load_of(400, seed=seed)[:, np.newaxis], 2, axis=1) / 2.0
    power_w[200:360] -= 300.0 / 4.0 / 2.0
    return _pair(power_w, seed)


def inefficient(seed: int) -> Frame:
    """Two supplies read every ten seconds; one takes in 2 % more for a quarter of an hour."""
    rng = np.random.default_rng(seed)
    out_w = 900.0 * (1.0 + 0.01 * rng.standard_normal((400, 2)))
    in_w = out_w / 0.95 * (1.0 + 0.002 * rng.standard_normal((400, 2)))
    in_w[200:290, 0] *= 1.02
    columns = {"voltage_v": np.full((400, 2), 12.1), "power_w": out_w, "input_power_w": in_w}
    return frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=0.1)


def server(name: str) -> Entity:
    return Entity(kind=EntityKind.NODE, key=name, name=name)


def nodes_frame(power_w: FloatArray, *, rate_hz: float = 1.0, **columns: FloatArray) -> Frame:
    """Table of nodes with their watts, shape ``(n_rows, n_nodes)``."""
    members = tuple(server(f"n{number}") for number in range(power_w.shape[1]))
    return frame_of(EntityKind.NODE, members, {"node_power_w": np.round(power_w), **columns}, rate_hz=rate_hz)


def job_of(rows: int, n_nodes: int, *, seed: int, spread: float = 0.003) -> FloatArray:
    """Watts of nodes that work in step: the load of all moves by some per cent, each differs by 1 %."""
    rng = np.random.default_rng(seed)
    common = 6000.0 * (1.0 + 0.03 * np.sin(np.arange(rows) / 7.0) + 0.01 * rng.standard_normal(rows))
    own = 1.0 + 0.01 * rng.standard_normal(n_nodes)
    watts: FloatArray = common[:, np.newaxis] * own * (1.0 + spread * rng.standard_normal((rows, n_nodes)))
    return watts


def _one_node(seed: int) -> FloatArray:
    return np.repeat(load_of(400, idle_w=2000.0, loaded_w=6000.0, seed=seed)[:, np.newaxis], 1, axis=1)


def node_sticking(seed: int) -> Frame:
    watts = job_of(400, 3, seed=seed)
    watts[250:310, 0] = np.round(watts[249, 0])
    watts[120:125] = np.nan
    return nodes_frame(watts)


def node_twins(seed: int) -> Frame:
    watts = job_of(400, 4, seed=seed)
    watts[:300, 2] = watts[:300, 0]
    return nodes_frame(watts, rate_hz=0.5)


def node_overloaded(seed: int) -> Frame:
    watts = _one_node(seed)
    watts[320:370] *= 1.2
    return nodes_frame(watts)


def node_one_gpu_less(seed: int) -> Frame:
    watts = _one_node(seed)
    watts[200:360] -= 500.0
    return nodes_frame(watts)


def node_unlike(seed: int) -> Frame:
    watts = job_of(400, 8, seed=seed)
    watts[200:300, 2] *= 1.02
    watts[220:320, 5] *= 0.91
    return nodes_frame(watts, rate_hz=0.2)


def node_inefficient(seed: int) -> Frame:
    rng = np.random.default_rng(seed)
    out_w = 5000.0 * (1.0 + 0.01 * rng.standard_normal((400, 2)))
    in_w = out_w / 0.95 * (1.0 + 0.002 * rng.standard_normal((400, 2)))
    in_w[200:290, 0] *= 1.02
    return nodes_frame(in_w, rate_hz=0.1, supplies_power_w=out_w)


SCENES: dict[str, Callable[[int], Frame]] = {
    "feed_meters": sticking,
    "feed_lost": lost,
    "feed_imbalance": unbalanced,
    "feed_factor": off_factor,
    "meter_twins_of_feeds": one_meter,
    "over_power_by_feeds": overloaded,
    "gpu_left_by_feeds": one_gpu_less,
    "supply_efficiency": inefficient,
    "node_meters": node_sticking,
    "meter_twins": node_twins,
    "over_power": node_overloaded,
    "gpu_left": node_one_gpu_less,
    "node_siblings": node_unlike,
    "node_efficiency": node_inefficient,
}


def panel_findings(*frames: Frame, topology: Topology, specs: tuple[TableSpec, ...] = ()) -> list[Finding]:
    """Return the findings of all detectors over frames in order."""
    panel = Panel.build(DetectorLimits())
    state = panel.start(specs or tuple({frame.spec.name: frame.spec for frame in frames}.values()))
    findings: list[Finding] = []
    for frame in frames:
        state, found = panel.step(state, [frame], topology)
        findings.extend(found)
    return findings
