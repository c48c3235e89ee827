"""Feeds of alternating current as an analyser at the wall reads them, once a second, and faults put into them."""

from collections.abc import Callable

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


SCENES: dict[str, Callable[[int], Frame]] = {"feed_meters": sticking}


def panel_findings(*frames: Frame, topology: Topology, specs: tuple[TableSpec, ...] = ()) -> list[Finding]:
    """Return the findings of all detectors over frames in order."""
    panel = Panel.build(DetectorLimits())
    state = panel.start(specs or tuple({frame.spec.name: frame.spec for frame in frames}.values()))
    findings: list[Finding] = []
    for frame in frames:
        state, found = panel.step(state, [frame], topology)
        findings.extend(found)
    return findings
