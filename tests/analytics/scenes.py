"""Small nodes and made-up tables for the tests of the judgement."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, EventKind, Severity

START_NS = 1_700_000_000 * NS_PER_S


def gpu(number: int) -> Entity:
    return Entity(kind=EntityKind.GPU, key=f"GPU-{number}", name=f"gpu{number}")


def supply(number: int) -> Entity:
    return Entity(kind=EntityKind.SUPPLY, key=f"psu{number}", name=f"psu{number}")


def node_of(n_gpus: int = 4, n_supplies: int = 2, *, key: str = "box") -> Topology:
    """Node whose supplies all feed all GPUs, as on one 12 V bus."""
    node = Entity(kind=EntityKind.NODE, key=key, name=key)
    gpus, supplies = [gpu(n) for n in range(n_gpus)], [supply(n) for n in range(n_supplies)]
    edges = [(node.id, one.id) for one in supplies]
    edges += [(feed.id, fed.id) for feed in supplies for fed in gpus]
    if not supplies:
        edges = [(node.id, one.id) for one in gpus]
    return Topology(entities=(node, *supplies, *gpus), edges=tuple(edges))


def fleet_of(n_nodes: int, gpus_per_node: int) -> Topology:
    entities: list[Entity] = []
    edges: list[tuple[str, str]] = []
    for number in range(n_nodes):
        node = Entity(kind=EntityKind.NODE, key=f"n{number}", name=f"n{number}")
        gpus = [gpu(number * gpus_per_node + n) for n in range(gpus_per_node)]
        entities += [node, *gpus]
        edges += [(node.id, one.id) for one in gpus]
    return Topology(entities=tuple(entities), edges=tuple(edges))


def frame_of(
    kind: EntityKind,
    entities: tuple[Entity, ...],
    columns: Mapping[str, npt.ArrayLike],
    *,
    rate_hz: float = 20.0,
    start_s: float = 0.0,
    name: str = "table",
) -> Frame:
    """Columns of shape ``(n_times, n_entities)``, or ``(n_times,)`` for all entities alike."""
    n_times = max(np.shape(column)[0] for column in columns.values())
    parts = []
    for column in columns.values():
        values = np.asarray(column, dtype=np.float64)
        parts.append(np.broadcast_to(values if values.ndim == 2 else values[:, None], (n_times, len(entities))))
    values = np.stack(parts, axis=2)
    times = START_NS + np.round((start_s + np.arange(n_times) / rate_hz) * NS_PER_S).astype(np.int64)
    spec = TableSpec(name=name, kind=kind, entities=entities, signals=tuple(columns))
    return Frame(spec=spec, time_ns=times, values=values, fresh=np.ones(values.shape, dtype=np.bool_))


def training_load(seconds: float, *, rate_hz: float = 20.0, low: float, high: float) -> npt.NDArray[np.float64]:
    """A step of 1 s: 0.7 s on the high plateau, 0.3 s low, as a synchronous training job draws."""
    phase = np.arange(round(seconds * rate_hz)) / rate_hz % 1.0
    return np.where(phase < 0.7, high, low)


def event_of(
    *,
    at_s: float = 0.0,
    kind: EventKind = EventKind.XID,
    code: int | None = 79,
    entity_id: str | None = "gpu:GPU-0",
    pci: str | None = None,
    source: str = "nvml",
    severity: Severity = Severity.CRITICAL,
    message: str = "GPU has fallen off the bus",
    pid: int | None = None,
    process: str | None = None,
) -> Event:
    time_ns = START_NS + round(at_s * NS_PER_S)
    return Event(
        id=f"{source}:{kind}:{code}:{time_ns}",
        time_ns=time_ns,
        kind=kind,
        entity_id=entity_id,
        code=code,
        severity=severity,
        message=message,
        sources=(source,),
        pci=pci,
        pid=pid,
        process=process,
    )
