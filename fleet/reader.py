"""Reader of fleet windows from the store of the nodes: tables of whole seconds, and records.

A record that cannot be read, such as one with a cause of a newer version, is left out.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from analytics.fleet.topology import fleet_entity, fleet_id
from analytics.fleet.window import JUDGED, FleetTable, FleetWindow, NodeIncident, column_of
from fleet.wirings import WiringReader
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray
from telemetry.records import (
    Cause,
    Event,
    EventKind,
    Evidence,
    Finding,
    FindingStatus,
    IncidentState,
    Severity,
)
from telemetry.rollup import Resolution
from telemetry.store.servers import ServerStore, TaggedColumns, entity_of_tags

_TagKey = tuple[tuple[str, str], ...]
Tags = Mapping[str, str]
Fields = Mapping[str, object]
_FIXED = frozenset({"id", "tags", "title", "text", "score", "severity_rank", "lasted_s"})


def columns_of(kind: EntityKind) -> tuple[str, ...]:
    """Return the columns of the store that the fleet reads of a kind."""
    return tuple(column_of(kind, name) for name in JUDGED[kind])


@dataclass(slots=True)
class TableBuilder:
    """Builds the table of one kind window by window. One thread owns it.

    While the same series come in the same order, the tables share their entities, so that they compare by identity.
    """

    kind: EntityKind
    _known: dict[_TagKey, tuple[Entity, str]] = field(default_factory=dict)
    _last: tuple[tuple[Entity, ...], tuple[str, ...]] = ((), ())
    _last_keys: tuple[_TagKey, ...] = ()

    def table(self, cells: Mapping[_TagKey, FloatArray]) -> FleetTable:
        """Return the table of series by tags, each of shape ``(n_seconds, n_signals)``."""
        keys = tuple(sorted(cells))
        if keys != self._last_keys:
            self._known = {key: self._entity(key) for key in keys}  # jobs come and go: only present series are kept
            found = self._known.values()
            self._last_keys = keys
            self._last = tuple(entity for entity, _ in found), tuple(node for _, node in found)
        entities, nodes = self._last
        values = np.stack([cells[key] for key in keys], axis=1)
        return FleetTable(entities=entities, nodes=nodes, signals=JUDGED[self.kind], values=values)

    def _entity(self, key: _TagKey) -> tuple[Entity, str]:
        known = self._known.get(key)
        if known is None:
            tags = dict(key)
            node = tags.get("node", "")
            known = fleet_entity(entity_of_tags(self.kind, tags), node), node
        return known


def tag_key(tags: Mapping[str, str]) -> _TagKey:
    """Return the tags of a series as a lookup key."""
    return tuple(sorted((name, value) for name, value in tags.items() if value))


def merged_by_entity(series: Iterable[tuple[_TagKey, FloatArray]]) -> dict[_TagKey, FloatArray]:
    """Join the series of one entity: every value, and every tag, the later of two.

    Its tables may name other tags of it, and tags may change in the window.
    """
    by_entity: dict[tuple[str, str], tuple[_TagKey, FloatArray]] = {}
    for key, values in series:
        tags = dict(key)
        place = tags.get("node", ""), tags.get("entity", "")
        if place in by_entity:
            before_key, before = by_entity[place]
            values = np.where(np.isnan(values), before, values)  # noqa: PLW2901 -- the same, completed
            key = tag_key(dict(before_key) | tags)  # noqa: PLW2901
        by_entity[place] = key, values
    return dict(by_entity.values())


def empty_cells(kind: EntityKind, start_ns: int, stop_ns: int) -> FloatArray:
    """Return the empty cells of one entity, all NaN."""
    return np.full(((stop_ns - start_ns) // NS_PER_S, len(JUDGED[kind])), np.nan)


def finding_of(tags: Tags, time_ns: int, fields: Fields) -> Finding | None:
    """Return a finding; its evidence has no units."""
    node = tags.get("node", "")
    entity_id = fleet_id(node, tags.get("entity_kind", ""), tags.get("entity", ""))
    since_ns = time_ns - round((_number(fields, "lasted_s") or 0.0) * NS_PER_S)
    detector = tags.get("detector", "")
    numbers = ((name, _number(fields, name)) for name in fields if name not in _FIXED)
    try:
        return Finding(
            # Two nodes may both have a psu0, and so two findings with one id.
            id=f"{node}/{_text(fields, 'id') or f'{detector}:{entity_id}:{since_ns}'}",
            time_ns=time_ns,
            since_ns=since_ns,
            detector=detector,
            cause=Cause(tags.get("cause", "")),
            entity_id=entity_id,
            status=FindingStatus(tags.get("status", "")),
            severity=Severity(tags.get("severity", "")),
            score=_number(fields, "score") or 0.0,
            summary=_text(fields, "text"),
            evidence=tuple(Evidence(name=name, value=value, unit="") for name, value in numbers if value is not None),
        )
    except ValueError:
        return None


def incident_of(tags: Tags, time_ns: int) -> NodeIncident | None:
    """Return the state of an incident of a node."""
    node = tags.get("node", "")
    try:
        return NodeIncident(
            node=node,
            time_ns=time_ns,
            entity_id=fleet_id(node, tags.get("entity_kind", ""), tags.get("entity", "")),
            cause=Cause(tags.get("cause", "")),
            state=IncidentState(tags.get("state", "")),
        )
    except ValueError:
        return None


def event_of(tags: Tags, time_ns: int, fields: Fields) -> Event | None:
    """Return an event of a node; without an entity it is about the node."""
    code, pid = _number(fields, "code_number"), _number(fields, "pid")
    node = tags.get("node", "")
    kind = tags.get("kind", "")
    try:
        return Event(
            id=f"{node}/{_text(fields, 'id') or f'{kind}:{time_ns}'}",
            time_ns=time_ns,
            kind=EventKind(kind),
            entity_id=fleet_id(node, tags.get("entity_kind", ""), tags.get("entity", "")),
            code=None if code is None else int(code),
            severity=Severity(tags.get("severity", "")),
            message=_text(fields, "text") or kind,
            sources=tuple(part for part in _text(fields, "sources").split(", ") if part),
            pci=_text(fields, "pci") or None,
            pid=None if pid is None else int(pid),
            process=_text(fields, "process") or None,
        )
    except ValueError:
        return None


def _number(fields: Fields, name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


class FleetReader(Protocol):
    """Reads windows of all nodes; TransientError where the store does not reply."""

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> FleetWindow:
        """Return the seconds of ``[start_ns, stop_ns)``, and the incidents of nodes up to `ahead_ns` after it."""
        ...

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return the number of values of each node in an interval, as the store has them now."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class ServerFleetReader:
    """Reads rollups and records of one server. One thread owns it."""

    def __init__(self, store: ServerStore) -> None:
        self._store = store
        self._builders = {kind: TableBuilder(kind) for kind in JUDGED}
        self._wirings = WiringReader(store)

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> FleetWindow:
        """Return a window; see the port."""
        tables: dict[EntityKind, FleetTable] = {}
        simulated: set[str] = set()
        for kind, builder in self._builders.items():
            found = [*self._store.columns(Resolution.ROLLUP, kind, columns_of(kind), start_ns, stop_ns)]
            if found:
                laid = [(tag_key(one.tags), _cells(kind, one, start_ns, stop_ns)) for one in found]
                tables[kind] = builder.table(merged_by_entity(laid))
                simulated.update(one.tags.get("node", "") for one in found if one.tags.get("simulated") == "true")
        events = (event_of(*one) for one in self._store.records("event", start_ns, stop_ns))
        findings = (finding_of(*one) for one in self._store.records("finding", start_ns, stop_ns))
        ahead = self._store.records("incident", start_ns, stop_ns + ahead_ns)
        incidents = (incident_of(tags, time_ns) for tags, time_ns, _ in ahead)
        wirings = self._wirings.read(start_ns, stop_ns)
        return FleetWindow(
            start_ns=start_ns,
            stop_ns=stop_ns,
            tables=tables,
            events=tuple(one for one in events if one is not None),
            findings=tuple(one for one in findings if one is not None),
            incidents=tuple(one for one in incidents if one is not None),
            simulated=frozenset(simulated),
            wirings=wirings.found,
            wirings_refused=wirings.refused,
        )

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return the number of values of each node; see the port."""
        counts: dict[str, int] = {}
        for kind in self._builders:
            for node, count in self._store.counts(kind, columns_of(kind), start_ns, stop_ns).items():
                counts[node] = counts.get(node, 0) + count
        return counts

    def close(self) -> None:
        """Close all connections."""
        self._store.close()


def _cells(kind: EntityKind, series: TaggedColumns, start_ns: int, stop_ns: int) -> FloatArray:
    cells = empty_cells(kind, start_ns, stop_ns)
    rows, columns = np.nonzero(~np.isnan(series.values))
    cells[(series.time_ns[rows] - start_ns) // NS_PER_S, columns] = series.values[rows, columns]
    return cells
