"""Traces of feeds and of nodes as arrays, and the tables that detectors get of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray

FEED_SIGNALS = ("voltage_v", "current_a", "power_w")
NODE_SIGNALS = ("node_power_w",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedTrace:
    """Feeds of one server: times ``(n,)``, the rest ``(n, n_feeds)``, NaN where a reading failed.

    `current_a` is what the meter shows: with watts it has the power factor, which is not 1.
    """

    name: str
    time_ns: TimeArray
    voltage_v: FloatArray
    current_a: FloatArray
    power_w: FloatArray

    @property
    def duration_s(self) -> float:
        """From the first row to the last."""
        return float(self.time_ns[-1] - self.time_ns[0]) / NS_PER_S

    @property
    def total_w(self) -> FloatArray:
        """Power of the server, shape ``(n,)``, NaN where a feed is unknown."""
        total: FloatArray = self.power_w.sum(axis=1)
        return total

    def spec(self) -> TableSpec:
        """Return the feeds as a table of supplies."""
        feeds = tuple(
            Entity(kind=EntityKind.SUPPLY, key=f"feed{number}", name=f"feed{number}")
            for number in range(self.power_w.shape[1])
        )
        return TableSpec(name="feed", kind=EntityKind.SUPPLY, entities=feeds, signals=FEED_SIGNALS)

    def topology(self) -> Topology:
        """Return the server that hangs on the feeds."""
        server = Entity(kind=EntityKind.NODE, key="server", name="server")
        feeds = self.spec().entities
        return Topology(entities=(server, *feeds), edges=tuple((server.id, feed.id) for feed in feeds))

    def frame(self) -> Frame:
        """Return all rows."""
        values = np.stack([self.voltage_v, self.current_a, self.power_w], axis=2)
        return Frame(spec=self.spec(), time_ns=self.time_ns, values=values, fresh=~np.isnan(values))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeTrace:
    """Nodes of one job: times ``(n,)``, `power_w` ``(n, n_nodes)``, NaN where a node had no reading at that time."""

    name: str
    nodes: tuple[str, ...]
    time_ns: TimeArray
    power_w: FloatArray

    @property
    def duration_s(self) -> float:
        """From the first row to the last."""
        return float(self.time_ns[-1] - self.time_ns[0]) / NS_PER_S

    def spec(self) -> TableSpec:
        """Return the table of nodes."""
        nodes = tuple(Entity(kind=EntityKind.NODE, key=name, name=name) for name in self.nodes)
        return TableSpec(name="node", kind=EntityKind.NODE, entities=nodes, signals=NODE_SIGNALS)

    def topology(self) -> Topology:
        """Return the nodes, of which nothing else is known."""
        return Topology(entities=self.spec().entities)

    def frame(self) -> Frame:
        """Return all rows, each with the newest reading of every node."""
        values, fresh = held(self.power_w), ~np.isnan(self.power_w)
        return Frame(
            spec=self.spec(), time_ns=self.time_ns, values=values[:, :, np.newaxis], fresh=fresh[:, :, np.newaxis]
        )


def held(values: FloatArray) -> FloatArray:
    """Return values ``(n, k)`` with each NaN replaced by the last known one of its column."""
    known = ~np.isnan(values)
    newest = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, np.newaxis], 0), axis=0)
    kept: FloatArray = np.take_along_axis(values, newest, axis=0)
    return kept


def ramp(time_ns: TimeArray, rows: slice, seconds: float) -> FloatArray:
    """Return the part of a fault that is there in each of the rows: 1, or rising from 0 over so many seconds."""
    passed_s = (time_ns[rows] - time_ns[rows.start]) / NS_PER_S
    return np.ones(len(passed_s)) if seconds <= 0.0 else np.minimum(passed_s / seconds, 1.0)


def rows_from(time_ns: TimeArray, row: int, seconds: float) -> slice:
    """Return the rows of so many seconds from one on."""
    return slice(row, int(np.searchsorted(time_ns, time_ns[row] + round(seconds * NS_PER_S))))


def others(count: int, one: int) -> Sequence[int]:
    """Return the positions of all but one."""
    return [place for place in range(count) if place != one]
