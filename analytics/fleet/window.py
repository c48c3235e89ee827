"""Window of all nodes: values from the store, on a grid of whole seconds that all nodes share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analytics.connectivity.topology_cache import Same
from analytics.fleet.signals import hold_ns
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray
from telemetry.records import Cause, Event, Finding, IncidentState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIncident:
    """Incident that a node's own guard reported; `entity_id` as the fleet names it."""

    node: str
    time_ns: int
    entity_id: str
    cause: Cause
    state: IncidentState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Values of one kind, shape ``(n_seconds, n_entities, n_signals)``; NaN where the store has none.

    `nodes` has for each entity the node that wrote it.
    """

    entities: tuple[Entity, ...]
    nodes: tuple[str, ...]
    signals: tuple[str, ...]
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """Whole seconds from `start_ns` up to `stop_ns`, and what the nodes said themselves meanwhile.

    `incidents` reach beyond `stop_ns`, as far as they are known: a node sees at full rate what the fleet sees later.
    `simulated` names the nodes whose rows say that they are.
    """

    start_ns: int
    stop_ns: int
    tables: Mapping[EntityKind, Table]
    events: tuple[Event, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: tuple[NodeIncident, ...] = ()
    simulated: frozenset[str] = field(default_factory=frozenset)

    @property
    def time_ns(self) -> TimeArray:
        """Return the beginning of each second."""
        return np.arange(self.start_ns, self.stop_ns, NS_PER_S, dtype=np.int64)

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that have a value in it."""
        found: set[str] = set()
        for table in self.tables.values():
            seen = np.isfinite(table.values).any(axis=(0, 2))
            names, numbers = _numbered(Same(table.nodes))
            found.update(names[number] for number in np.unique(numbers[seen]).tolist())
        return frozenset(found)

    def values_by_node(self) -> dict[str, int]:
        """Return how many values each node has in it."""
        counts: dict[str, int] = {}
        for table in self.tables.values():
            names, numbers = _numbered(Same(table.nodes))
            known = np.bincount(numbers, weights=np.isfinite(table.values).sum(axis=(0, 2)), minlength=len(names))
            for node, count in zip(names, known.tolist(), strict=True):
                counts[node] = counts.get(node, 0) + round(count)
        return {node: count for node, count in counts.items() if count}


@lru_cache(maxsize=16)
def places_among(known: Same[tuple[Entity, ...]], reported: Same[tuple[Entity, ...]]) -> npt.NDArray[np.intp]:
    """Return where the entities of a window stand among those that are known."""
    places = {entity.id: place for place, entity in enumerate(known.it)}
    return np.array([places[entity.id] for entity in reported.it], dtype=np.intp)


@lru_cache(maxsize=16)
def _numbered(names: Same[tuple[str, ...]]) -> tuple[tuple[str, ...], npt.NDArray[np.intp]]:
    """Return the names, each once, and for each entry the number of its name."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in names.it]
    return tuple(numbers), np.array(found, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """The newest value of each signal of one kind and when it was told, shape ``(n_entities, n_signals)``."""

    spec: TableSpec
    values: FloatArray
    reported_ns: TimeArray

    @staticmethod
    def nothing(kind: EntityKind, entities: tuple[Entity, ...], signals: tuple[str, ...]) -> "Held":
        """Return what holds before the first window."""
        spec = TableSpec(name=f"fleet_{kind}", kind=kind, entities=entities, signals=signals)
        return Held(spec=spec, values=np.full(spec.shape, np.nan), reported_ns=np.zeros(spec.shape, dtype=np.int64))

    def under(self, entities: tuple[Entity, ...]) -> "Held":
        """Return what holds for other entities: those that stay keep their values."""
        made = Held.nothing(self.spec.kind, entities, self.spec.signals)
        rows = {entity.id: row for row, entity in enumerate(self.spec.entities)}
        pairs = [(place, rows[entity.id]) for place, entity in enumerate(entities) if entity.id in rows]
        if pairs:
            here, there = (list(side) for side in zip(*pairs, strict=True))
            made.values[here], made.reported_ns[here] = self.values[there], self.reported_ns[there]
        return made

    def frame(self, window: Window) -> tuple["Held", Frame]:
        """Return the window's rows for all entities, each value held as long as it stands; whoever is silent is NaN."""
        spec, times = self.spec, window.time_ns
        rows = np.full((len(times), *spec.shape), np.nan)
        table = window.tables.get(spec.kind)
        if table is not None and table.entities:
            rows[:, places_among(Same(spec.entities), Same(table.entities))] = table.values
        limits = np.array([hold_ns(spec.kind, name) for name in spec.signals], dtype=np.int64)
        values, reported = self.values, self.reported_ns
        fresh = np.isfinite(rows)
        for row, now_ns in enumerate(times.tolist()):
            new = fresh[row]
            reported = np.where(new, now_ns, reported)
            values = np.where(new, rows[row], np.where(now_ns - reported <= limits, values, np.nan))
            rows[row] = values
        return Held(spec=spec, values=values, reported_ns=reported), Frame(
            spec=spec, time_ns=times, values=rows, fresh=fresh
        )
