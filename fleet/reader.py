"""Reader of fleet windows from the store of the nodes."""

from typing import Protocol

import numpy as np

from analytics.fleet.window import JUDGED, FleetTable, FleetWindow
from fleet.records import event_of, finding_of, incident_of
from fleet.rows import TableBuilder, columns_of, empty_cells, merged_by_entity, tag_key
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray
from telemetry.store.resolution import Resolution
from telemetry.store.servers import ServerStore, TaggedColumns


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
        return FleetWindow(
            start_ns=start_ns,
            stop_ns=stop_ns,
            tables=tables,
            events=tuple(one for one in events if one is not None),
            findings=tuple(one for one in findings if one is not None),
            incidents=tuple(one for one in incidents if one is not None),
            simulated=frozenset(simulated),
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
