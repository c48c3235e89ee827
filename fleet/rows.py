"""Tables of whole seconds from the series of a store."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from analytics.fleet.topology import fleet_entity
from analytics.fleet.window import JUDGED, FleetTable, column_of
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray
from telemetry.store.servers import entity_of_tags

_TagKey = tuple[tuple[str, str], ...]


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
    """Join the series of one entity whose tags changed in the window: the later tags, every value."""
    by_entity: dict[tuple[str, str], tuple[_TagKey, FloatArray]] = {}
    for key, values in series:
        tags = dict(key)
        place = tags.get("node", ""), tags.get("entity", "")
        if place in by_entity:
            before = by_entity[place][1]
            values = np.where(np.isnan(values), before, values)  # noqa: PLW2901 -- the same, completed
        by_entity[place] = key, values
    return dict(by_entity.values())


def empty_cells(kind: EntityKind, start_ns: int, stop_ns: int) -> FloatArray:
    """Return the empty cells of one entity, all NaN."""
    return np.full(((stop_ns - start_ns) // NS_PER_S, len(JUDGED[kind])), np.nan)
