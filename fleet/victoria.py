"""Reader of fleet windows from VictoriaMetrics through its export API, since it has no InfluxQL.

It keeps milliseconds and no text, so a record there is its tags and numbers, without its summary.
"""

import json
from collections.abc import Iterator
from typing import Any

import urllib3

from analytics.fleet.signals import JUDGED
from analytics.fleet.window import Table, Window
from fleet.records import event_of, finding_of, incident_of
from fleet.rows import TableBuilder, columns_of, empty_cells, merged_by_entity, tag_key
from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.entities import EntityKind
from telemetry.errors import TransientError
from telemetry.frames import FloatArray
from telemetry.store.http_text import text_of

# A numeric field that every record of a measurement has.
_COUNTED_FIELD = {"finding": "lasted_s", "incident": "open_s", "event": "severity_rank"}


class VictoriaFleetReader:
    """Reads one server. One thread owns it."""

    def __init__(self, url: str, *, basic_auth: str | None, timeout_s: float) -> None:
        headers = {} if basic_auth is None else dict(urllib3.make_headers(basic_auth=basic_auth))
        self._url = f"{url}/api/v1/export"
        self._pool = urllib3.PoolManager(maxsize=2, headers=headers)
        self._timeout_s = timeout_s
        self._builders = {kind: TableBuilder(kind) for kind in JUDGED}

    def window(self, start_ns: int, stop_ns: int, *, ahead_ns: int) -> Window:
        """Return a window; see the port."""
        tables: dict[EntityKind, Table] = {}
        simulated: set[str] = set()
        for kind, builder in self._builders.items():
            cells: dict[Any, FloatArray] = {}
            for labels, column, times_ns, values in self._kind(kind, start_ns, stop_ns):
                key = tag_key(labels)
                own = cells.setdefault(key, empty_cells(kind, start_ns, stop_ns))
                for time_ns, value in zip(times_ns, values, strict=True):
                    own[(time_ns - start_ns) // NS_PER_S, column] = value
                if labels.get("simulated") == "true":
                    simulated.add(labels.get("node", ""))
            if cells:
                tables[kind] = builder.table(merged_by_entity(sorted(cells.items())))
        made = {name: list(self._records(name, start_ns, stop_ns + ahead_ns)) for name in _COUNTED_FIELD}
        findings = (finding_of(*one) for one in made["finding"] if one[1] < stop_ns)
        events = (event_of(*one) for one in made["event"] if one[1] < stop_ns)
        incidents = (incident_of(tags, time_ns) for tags, time_ns, _ in made["incident"])
        return Window(
            start_ns=start_ns,
            stop_ns=stop_ns,
            tables=tables,
            events=tuple(one for one in events if one is not None),
            findings=tuple(one for one in findings if one is not None),
            incidents=tuple(one for one in incidents if one is not None),
            simulated=frozenset(simulated),
        )

    def values_by_node(self, start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return how many values each node has; see the port."""
        counts: dict[str, int] = {}
        for kind in self._builders:
            for labels, _, times_ns, _ in self._kind(kind, start_ns, stop_ns):
                node = labels.get("node", "")
                counts[node] = counts.get(node, 0) + len(times_ns)
        return counts

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _kind(
        self, kind: EntityKind, start_ns: int, stop_ns: int
    ) -> Iterator[tuple[dict[str, str], int, list[int], list[float]]]:
        columns = {f"{kind}_{name}": place for place, name in enumerate(columns_of(kind))}
        for labels, times_ns, values in self._export("|".join(columns), start_ns, stop_ns):
            name = labels.pop("__name__")
            yield labels, columns[name], times_ns, values

    def _records(
        self, name: str, start_ns: int, stop_ns: int
    ) -> Iterator[tuple[dict[str, str], int, dict[str, object]]]:
        field = _COUNTED_FIELD[name]
        rows: list[tuple[dict[str, str], int, dict[str, object]]] = [
            (labels, time_ns, {field: value})
            for labels, times_ns, values in self._export(f"{name}_{field}", start_ns, stop_ns)
            for time_ns, value in zip(times_ns, values, strict=True)
        ]
        yield from sorted(rows, key=lambda row: (row[1], sorted(row[0].items())))

    def _export(
        self, names: str, start_ns: int, stop_ns: int
    ) -> Iterator[tuple[dict[str, str], list[int], list[float]]]:
        fields = {
            "match[]": f'{{__name__=~"{names}",by=""}}',
            "start": str(start_ns / NS_PER_S),
            "end": str((stop_ns // NS_PER_MS - 1) / 1000),
        }
        text = text_of(
            self._url,
            lambda: self._pool.request("GET", self._url, fields=fields, timeout=self._timeout_s, retries=False),
        )
        try:
            found = [json.loads(line) for line in text.splitlines()]
            for one in found:
                yield one["metric"], [int(stamp) * NS_PER_MS for stamp in one["timestamps"]], one["values"]
        except (ValueError, KeyError, TypeError) as err:
            raise TransientError(f"{self._url}: the reply is not from VictoriaMetrics") from err
