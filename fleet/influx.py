"""Reader of fleet windows from InfluxDB 1.x or 2.x, in InfluxQL."""

from collections.abc import Iterator, Sequence

import numpy as np

from analytics.fleet.signals import JUDGED
from analytics.fleet.window import NodeIncident, Table, Window
from fleet.records import event_of, finding_of, incident_of
from fleet.rows import TableBuilder, columns_of, empty_cells, merged_by_entity, tag_key
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray
from telemetry.records import Event, Finding
from telemetry.store.influxql import InfluxQl, QlSeries, quoted

# Tag of lines that the fleet service wrote; lines of nodes lack it.
BY_FLEET = "fleet"


class InfluxFleetReader:
    """Reads rollups and records of one database and retention policy. One thread owns it."""

    def __init__(self, ql: InfluxQl, *, database: str, policy: str) -> None:
        self._ql = ql
        self._from = f"{quoted(database)}.{quoted(policy)}"
        self._builders = {kind: TableBuilder(kind) for kind in JUDGED}

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> Window:
        """Return a window; see the port."""
        tables: dict[EntityKind, Table] = {}
        simulated: set[str] = set()
        for kind, builder in self._builders.items():
            fields = ", ".join(quoted(name) for name in columns_of(kind))
            found = self._select(fields, kind, start_ns, stop_ns)
            if found:
                laid = [(tag_key(one.tags), _cells(kind, one, start_ns, stop_ns)) for one in found]
                tables[kind] = builder.table(merged_by_entity(laid))
                simulated.update(one.tags.get("node", "") for one in found if one.tags.get("simulated") == "true")
        return Window(
            start_ns=start_ns,
            stop_ns=stop_ns,
            tables=tables,
            events=tuple(self._events(start_ns, stop_ns)),
            findings=tuple(self._findings(start_ns, stop_ns)),
            incidents=tuple(self._incidents(start_ns, stop_ns + ahead_ns)),
            simulated=frozenset(simulated),
        )

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return how many values each node has; see the port."""
        counts: dict[str, int] = {}
        for kind in self._builders:
            fields = ", ".join(f"count({quoted(name)})" for name in columns_of(kind))
            for one in self._select(fields, kind, start_ns, stop_ns, group='"node"'):
                node = one.tags.get("node", "")
                counts[node] = counts.get(node, 0) + sum(int(count or 0) for row in one.rows for count in row[1:])
        return counts

    def close(self) -> None:
        """Close all connections."""
        self._ql.close()

    def _events(self, start_ns: int, stop_ns: int) -> Iterator[Event]:
        for tags, time_ns, fields in self._records("event", start_ns, stop_ns):
            event = event_of(tags, time_ns, fields)
            if event is not None:
                yield event

    def _findings(self, start_ns: int, stop_ns: int) -> Iterator[Finding]:
        for tags, time_ns, fields in self._records("finding", start_ns, stop_ns):
            finding = finding_of(tags, time_ns, fields)
            if finding is not None:
                yield finding

    def _incidents(self, start_ns: int, stop_ns: int) -> Iterator[NodeIncident]:
        for tags, time_ns, _ in self._records("incident", start_ns, stop_ns):
            incident = incident_of(tags, time_ns)
            if incident is not None:
                yield incident

    def _records(
        self, measurement: str, start_ns: int, stop_ns: int
    ) -> Iterator[tuple[dict[str, str], int, dict[str, object]]]:
        rows = [
            (one.tags, int(row[0]), dict(zip(one.columns[1:], row[1:], strict=True)))
            for one in self._select("*", measurement, start_ns, stop_ns)
            for row in one.rows
        ]
        yield from sorted(rows, key=lambda row: (row[1], str(row[2].get("id")), sorted(row[0].items())))

    def _select(
        self, fields: str, measurement: str, start_ns: int, stop_ns: int, *, group: str = "*"
    ) -> Sequence[QlSeries]:
        # Every name is quoted and times are whole numbers.
        return self._ql.query(
            f"SELECT {fields} FROM {self._from}.{quoted(measurement)} "  # noqa: S608
            f"WHERE time >= {start_ns} AND time < {stop_ns} AND \"by\" = '' GROUP BY {group}"
        )


def _cells(kind: EntityKind, series: QlSeries, start_ns: int, stop_ns: int) -> FloatArray:
    cells = empty_cells(kind, start_ns, stop_ns)
    for row in series.rows:
        values = np.array(row[1:], dtype=np.float64)  # None turns into NaN
        place = (int(row[0]) - start_ns) // NS_PER_S
        cells[place] = np.where(np.isnan(values), cells[place], values)
    return cells
