"""VictoriaMetrics as a store of samples: its export API and range queries, since it has no InfluxQL.

It keeps milliseconds and no text, so a record there is its tags and numbers, without its summary.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import urllib3

from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.entities import EntityKind
from telemetry.errors import TransientError
from telemetry.json_text import json_text
from telemetry.rollup import Resolution
from telemetry.store.influxql import text_of
from telemetry.store.servers import StoredRecord, TaggedColumns, flags_by_step

# A numeric field that every record of a measurement has.
_COUNTED_FIELD = {"finding": "lasted_s", "incident": "open_s", "event": "severity_rank"}
_FUNCTIONS = {"mean": "avg_over_time", "min": "min_over_time", "max": "max_over_time", "last": "last_over_time"}
# Labels, times in ns, values.
_Series = tuple[dict[str, str], list[int], list[float]]


class VictoriaServer:
    """A `telemetry.store.servers.ServerStore`; every method may be called from any thread.

    Nodes write raw samples and rollups to the same place.
    """

    def __init__(self, url: str, *, basic_auth: str | None, timeout_s: float) -> None:
        headers = {} if basic_auth is None else dict(urllib3.make_headers(basic_auth=basic_auth))
        self._url = url
        self._pool = urllib3.PoolManager(maxsize=2, headers=headers)
        self._timeout_s = timeout_s

    def columns(
        self,
        resolution: Resolution,
        kind: EntityKind,
        columns: Sequence[str],
        start_ns: int,
        stop_ns: int,
        *,
        node: str | None = None,
        step_ns: int = NS_PER_S,
    ) -> Iterator[TaggedColumns]:
        """Yield columns; see the port."""
        del resolution
        places = {f"{kind}_{name}": place for place, name in enumerate(columns)}
        by_tags: dict[tuple[tuple[str, str], ...], list[tuple[int, Any, Any]]] = {}
        for labels, times_ns, found in self._series([*places], start_ns, stop_ns, node=node, step_ns=step_ns):
            name = labels.pop("__name__")
            time_ns, values = np.array(times_ns, dtype=np.int64), np.array(found, dtype=np.float64)
            if step_ns != NS_PER_S and name.endswith("_any"):
                time_ns, values = flags_by_step(time_ns, values, step_ns)
            by_tags.setdefault(tuple(sorted(labels.items())), []).append((places[name], time_ns, values))
        for tags, parts in sorted(by_tags.items(), key=lambda item: item[0]):
            time_ns = np.unique(np.concatenate([part[1] for part in parts]))
            laid = np.full((len(time_ns), len(columns)), np.nan)
            for place, own_ns, values in parts:
                laid[np.searchsorted(time_ns, own_ns), place] = values
            yield TaggedColumns(tags=dict(tags), time_ns=time_ns, values=laid)

    def records(self, measurement: str, start_ns: int, stop_ns: int) -> Iterator[StoredRecord]:
        """Yield records with one of their numbers, none of a type that is text alone; see the port."""
        field = _COUNTED_FIELD.get(measurement)
        if field is None:
            return
        rows: list[StoredRecord] = [
            (labels, time_ns, {field: value})
            for labels, times_ns, values in self._export([f"{measurement}_{field}"], start_ns, stop_ns)
            for time_ns, value in zip(times_ns, values, strict=True)
        ]
        yield from sorted(rows, key=lambda row: (row[1], sorted(row[0].items())))

    def counts(self, kind: EntityKind, columns: Sequence[str], start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return the number of values by node; see the port."""
        counts: dict[str, int] = {}
        for labels, times_ns, _ in self._export([f"{kind}_{name}" for name in columns], start_ns, stop_ns):
            node = labels.get("node", "")
            counts[node] = counts.get(node, 0) + len(times_ns)
        return counts

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _series(
        self, names: Sequence[str], start_ns: int, stop_ns: int, *, node: str | None, step_ns: int
    ) -> Iterator[_Series]:
        if step_ns == NS_PER_S:
            yield from self._export(names, start_ns, stop_ns, node=node)
            return
        for statistic, function in _FUNCTIONS.items():
            own = [name for name in names if name.endswith(f"_{statistic}")]
            if own:
                yield from self._query_range(function, own, start_ns, stop_ns, node=node, step_ns=step_ns)
        flags = [name for name in names if name.endswith("_any")]
        if flags:
            yield from self._export(flags, start_ns, stop_ns, node=node)

    def _export(self, names: Sequence[str], start_ns: int, stop_ns: int, *, node: str | None = None) -> list[_Series]:
        text = self._get(
            "/api/v1/export",
            {
                "match[]": _selector(names, node),
                "start": str(start_ns / NS_PER_S),
                "end": str((stop_ns - 1) // NS_PER_MS / 1000),
            },
        )
        try:
            found = [json.loads(line) for line in text.splitlines()]
            return [
                (one["metric"], [int(stamp) * NS_PER_MS for stamp in one["timestamps"]], one["values"]) for one in found
            ]
        except (ValueError, KeyError, TypeError) as err:
            raise self._foreign() from err

    def _query_range(
        self, function: str, names: Sequence[str], start_ns: int, stop_ns: int, *, node: str | None, step_ns: int
    ) -> list[_Series]:
        # A window ends at its time stamp and includes it: a step is asked for by its last millisecond.
        shift_ns = step_ns - NS_PER_MS
        step_s = step_ns // NS_PER_S
        last_ns = (stop_ns - 1) // step_ns * step_ns + shift_ns
        text = self._get(
            "/api/v1/query_range",
            {
                "query": f"{function}({_selector(names, node)}[{step_s}s]) keep_metric_names",
                "start": f"{(start_ns + shift_ns) / NS_PER_S:.3f}",
                "end": f"{last_ns / NS_PER_S:.3f}",
                "step": f"{step_s}s",
                "nocache": "1",  # otherwise the server moves the times
            },
        )
        try:
            return [
                (
                    one["metric"],
                    [(round(stamp * 1000) * NS_PER_MS) // step_ns * step_ns for stamp, _ in one["values"]],
                    [float(value) for _, value in one["values"]],
                )
                for one in json.loads(text)["data"]["result"]
            ]
        except (ValueError, KeyError, TypeError) as err:
            raise self._foreign() from err

    def _get(self, path: str, fields: Mapping[str, str]) -> str:
        url = self._url + path
        return text_of(
            url, lambda: self._pool.request("GET", url, fields=fields, timeout=self._timeout_s, retries=False)
        )

    def _foreign(self) -> TransientError:
        return TransientError(f"{self._url}: the reply is not from VictoriaMetrics")


def _selector(names: Sequence[str], node: str | None) -> str:
    own = "" if node is None else f",node={json_text(node)}"
    return f'{{__name__=~"{"|".join(names)}",by=""{own}}}'
