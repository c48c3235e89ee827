"""Other ways to write down the same recording: names, tables, clocks and gaps as strangers' tools have them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec, TimeArray
from tests.analytics.independent_plant_meters import NodeRecording, one_bus

Dialect = Callable[[NodeRecording], NodeRecording]


def _with_supplies(read: NodeRecording, *supplies: Frame) -> NodeRecording:
    """Return a recording with other tables of supplies, and the topology of their entities."""
    others = tuple(frame for frame in read.frames if frame.spec.kind is not EntityKind.SUPPLY)
    frames = (*supplies, *others)
    return NodeRecording(frames=frames, topology=one_bus([one for frame in frames for one in frame.spec.entities]))


def _renamed(frame: Frame, *, names: Callable[[int], str], signals: dict[str, str]) -> Frame:
    members = tuple(replace(one, key=names(place), name=names(place)) for place, one in enumerate(frame.spec.entities))
    spec = replace(frame.spec, entities=members, signals=tuple(signals.get(one, one) for one in frame.spec.signals))
    return replace(frame, spec=spec)


def _at(frame: Frame, time_ns: TimeArray) -> Frame:
    return replace(frame, time_ns=time_ns)


def other_names(read: NodeRecording) -> NodeRecording:
    """Return supplies that are called ``PSU_A`` and so on."""
    return _with_supplies(read, _renamed(read.frames[0], names=lambda place: f"PSU_{chr(65 + place)}", signals={}))


def earlier_signals(read: NodeRecording) -> NodeRecording:
    """Return readings under the names that recordings of board controllers had."""
    signals = {"voltage_v": "rail_voltage_v", "current_a": "rail_current_a"}
    return _with_supplies(read, _renamed(read.frames[0], names=lambda place: f"psu{place + 1}", signals=signals))


def voltages_alone(read: NodeRecording) -> NodeRecording:
    """Return supplies without currents."""
    frame = read.frames[0]
    spec = replace(frame.spec, signals=("voltage_v",))
    return _with_supplies(read, replace(frame, spec=spec, values=frame.values[:, :, :1], fresh=frame.fresh[:, :, :1]))


def table_each(read: NodeRecording) -> NodeRecording:
    """Return one table per supply, each with a clock a little apart."""
    frame, parts = read.frames[0], []
    for place, one in enumerate(frame.spec.entities):
        spec = TableSpec(name=f"supply_{place}", kind=EntityKind.SUPPLY, entities=(one,), signals=frame.spec.signals)
        own = slice(place, place + 1)
        parts.append(
            Frame(
                spec=spec,
                time_ns=frame.time_ns + place * 3 * NS_PER_MS,
                values=frame.values[:, own],
                fresh=frame.fresh[:, own],
            )
        )
    return _with_supplies(read, *parts)


def no_edges(read: NodeRecording) -> NodeRecording:
    """Return a recording that knows its entities, and not how they hang together."""
    return replace(read, topology=Topology(entities=read.topology.entities, edges=()))


def repeated_times(read: NodeRecording) -> NodeRecording:
    """Return rows of which some share a time stamp."""
    return _with_supplies(read, _at(read.frames[0], read.frames[0].time_ns // (150 * NS_PER_MS) * (150 * NS_PER_MS)))


def set_back(read: NodeRecording) -> NodeRecording:
    """Return rows whose clock was set back by 20 s half-way."""
    frame = read.frames[0]
    late = np.arange(len(frame.time_ns)) >= len(frame.time_ns) // 2
    return _with_supplies(read, _at(frame, frame.time_ns - late * 20 * NS_PER_S))


def holes(read: NodeRecording) -> NodeRecording:
    """Return readings with gaps of NaN: a tenth of all, single supplies for half a minute, all of them for 20 s."""
    frame, rng = read.frames[0], np.random.default_rng(7)
    values = frame.values.copy()
    values[rng.random(values.shape[:2]) < 0.1] = np.nan
    seconds = (frame.time_ns - frame.time_ns[0]) / NS_PER_S
    values[(seconds % 200.0) < 20.0] = np.nan
    values[((seconds + 60.0) % 150.0) < 30.0, 0] = np.nan
    return _with_supplies(read, replace(frame, values=values, fresh=np.isfinite(values)))


def held_values(read: NodeRecording) -> NodeRecording:
    """Return rows five times as often, which repeat the last reading as fresh."""
    frame = read.frames[0]
    step_ns = np.diff(frame.time_ns, append=frame.time_ns[-1] + NS_PER_S)[:, np.newaxis]
    time_ns = (frame.time_ns[:, np.newaxis] + step_ns * np.arange(5) // 5).ravel()
    values, fresh = np.repeat(frame.values, 5, axis=0), np.repeat(frame.fresh, 5, axis=0)
    return _with_supplies(read, replace(frame, time_ns=time_ns, values=values, fresh=fresh))


def glitches(read: NodeRecording) -> NodeRecording:
    """Return readings with failed conversions: zeros, full scale, and a voltage of another class of rails."""
    frame, rng = read.frames[0], np.random.default_rng(8)
    values = frame.values.copy()
    for wrong in (0.0, 655.35, 1.13 * np.nanmedian(frame.signal("voltage_v"))):
        values[rng.random(values.shape[:2]) < 1e-4, 0] = wrong
    return _with_supplies(read, replace(frame, values=values))


def from_zero(read: NodeRecording) -> NodeRecording:
    """Return times since the start of the recording."""
    first_ns = min(int(frame.time_ns[0]) for frame in read.frames)
    return replace(read, frames=tuple(_at(frame, frame.time_ns - first_ns) for frame in read.frames))


def with_outlets(read: NodeRecording) -> NodeRecording:
    """Return a recording that also has the mains of each supply."""
    frame, rng = read.frames[0], np.random.default_rng(9)
    volts, amps = frame.signal("voltage_v"), frame.signal("current_a")
    mains_v = 230.0 + 0.3 * rng.standard_normal(volts.shape)
    values = np.stack((mains_v, volts * amps / 0.95 / mains_v), axis=2)
    members = tuple(
        Entity(kind=EntityKind.SUPPLY, key=f"in{one.key}", name=f"in{one.key}") for one in frame.spec.entities
    )
    spec = TableSpec(name="inlets", kind=EntityKind.SUPPLY, entities=members, signals=("voltage_v", "current_a"))
    return _with_supplies(
        read, frame, Frame(spec=spec, time_ns=frame.time_ns, values=values, fresh=np.isfinite(values))
    )


DIALECTS: tuple[Dialect, ...] = (
    other_names,
    earlier_signals,
    voltages_alone,
    table_each,
    no_edges,
    repeated_times,
    set_back,
    holes,
    held_values,
    glitches,
    from_zero,
    with_outlets,
)
