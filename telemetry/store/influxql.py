"""InfluxQL over HTTP, the one query language that InfluxDB 1.x, 2.x, 3.x and Grafana share."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import urllib3

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.errors import NotPermittedError, TransientError
from telemetry.frames import FloatArray
from telemetry.rollup import Resolution
from telemetry.store.servers import StoredRecord, TaggedColumns, flags_by_step

# Function of InfluxQL for each statistic of a rollup; of flags every distinct value is read.
_FUNCTIONS = {"mean": "mean", "min": "min", "max": "max", "last": "last", "any": "distinct"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QlSeries:
    """One series of a response; times in ns, an empty text for a tag that the series lacks."""

    name: str
    tags: dict[str, str]
    columns: tuple[str, ...]
    rows: list[list[Any]]


class InfluxQl:
    """Client that runs statements on one server; every method may be called from any thread."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        headers: dict[str, str] = {}
        if token is not None:
            headers["Authorization"] = f"Token {token}"
        elif username is not None:
            headers.update(urllib3.make_headers(basic_auth=f"{username}:{password or ''}"))
        self._url = f"{url.rstrip('/')}/query"
        self._pool = urllib3.PoolManager(maxsize=2, headers=headers)
        self._timeout_s = timeout_s

    def query(
        self, statement: str, *, database: str | None = None, allow: tuple[str, ...] = ()
    ) -> tuple[QlSeries, ...]:
        """Run statements and return all series of their results.

        A 1.x server answers 200 with the error inside the result; an error that holds one of `allow` is none.

        Raises
        ------
        NotPermittedError
            The account is unknown or may not do this.
        TransientError
            The server cannot be reached, is in trouble, or refuses the statement.
        """
        fields = {"q": statement, "epoch": "ns"} | ({} if database is None else {"db": database})
        text = text_of(
            self._url,
            lambda: self._pool.request(
                "POST", self._url, fields=fields, timeout=self._timeout_s, retries=False, encode_multipart=False
            ),
        )
        try:
            results = json.loads(text)["results"]
        except (ValueError, KeyError, TypeError) as err:
            raise TransientError(f"{self._url}: the answer is not that of an InfluxQL server") from err
        for result in results:
            error = result.get("error")
            if error is not None and not any(text in error for text in allow):
                raise TransientError(f"{self._url}: {error}")
        return tuple(_series(series) for result in results for series in result.get("series", ()))

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def text_of(url: str, send: Callable[[], urllib3.BaseHTTPResponse]) -> str:
    """Send a request and return the body of a response with status 200.

    Raises
    ------
    NotPermittedError
        The account is unknown or may not do this.
    TransientError
        The server cannot be reached, fails, or refuses the request.
    """
    try:
        response = send()
    except urllib3.exceptions.HTTPError as err:
        raise TransientError(f"{url}: not reached: {err}") from err
    text = response.data.decode(errors="replace")
    if response.status in (401, 403):
        raise NotPermittedError(f"{url}: HTTP {response.status}: {text.strip()[:300]}")
    if response.status != 200:
        raise TransientError(f"{url}: HTTP {response.status}: {text.strip()[:300]}")
    return text


def quoted(name: str) -> str:
    """Return an identifier as InfluxQL writes it."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _series(fields: dict[str, Any]) -> QlSeries:
    return QlSeries(
        name=fields.get("name", ""),
        tags=fields.get("tags", {}),
        columns=tuple(fields["columns"]),
        rows=fields.get("values", []),
    )


class InfluxServer:
    """A `telemetry.store.servers.ServerStore` over InfluxQL; `sources` names the quoted database and policy of each."""

    def __init__(self, ql: InfluxQl, sources: Mapping[Resolution, tuple[str, str]]) -> None:
        self._ql = ql
        self._from = {key: f"{quoted(database)}.{quoted(policy)}" for key, (database, policy) in sources.items()}

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
        if step_ns == NS_PER_S:
            fields = ", ".join(map(quoted, columns))
            for one in self._select(fields, resolution, kind, start_ns, stop_ns, node=node):
                yield TaggedColumns(tags=one.tags, time_ns=_times(one), values=_values(one))
            return
        flags = [name for name in columns if name.endswith("_any")]
        # `distinct` has rows of its own, several a step, so flags are read one by one.
        for names in ([name for name in columns if name not in flags], *([name] for name in flags)):
            fields = ", ".join(
                f"{_FUNCTIONS[name.rpartition('_')[2]]}({quoted(name)}) AS {quoted(name)}" for name in names
            )
            group = f"time({step_ns // NS_PER_S}s), * fill(none)"
            found = self._select(fields, resolution, kind, start_ns, stop_ns, node=node, group=group) if names else ()
            for one in found:
                time_ns, own = _times(one), _values(one)
                if names[0] in flags:
                    time_ns, own = flags_by_step(time_ns, own, step_ns)
                values = np.full((len(own), len(columns)), np.nan)
                values[:, [columns.index(name) for name in names]] = own
                yield TaggedColumns(tags=one.tags, time_ns=time_ns, values=values)

    def records(self, measurement: str, start_ns: int, stop_ns: int) -> Iterator[StoredRecord]:
        """Yield records; see the port."""
        rows = [
            (one.tags, int(row[0]), dict(zip(one.columns[1:], row[1:], strict=True)))
            for one in self._select("*", Resolution.ROLLUP, measurement, start_ns, stop_ns)
            for row in one.rows
        ]
        yield from sorted(rows, key=lambda row: (row[1], str(row[2].get("id")), sorted(row[0].items())))

    def counts(self, kind: EntityKind, columns: Sequence[str], start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return the number of values by node; see the port."""
        fields = ", ".join(f"count({quoted(name)})" for name in columns)
        counts: dict[str, int] = {}
        for one in self._select(fields, Resolution.ROLLUP, kind, start_ns, stop_ns, group='"node"'):
            node = one.tags.get("node", "")
            counts[node] = counts.get(node, 0) + sum(int(count or 0) for row in one.rows for count in row[1:])
        return counts

    def close(self) -> None:
        """Close the connections."""
        self._ql.close()

    def _select(
        self,
        fields: str,
        resolution: Resolution,
        measurement: str,
        start_ns: int,
        stop_ns: int,
        *,
        node: str | None = None,
        group: str = "*",
    ) -> Sequence[QlSeries]:
        own = "" if node is None else f' AND "node" = {_literal(node)}'
        # Every name is quoted and times are whole numbers.
        return self._ql.query(
            f"SELECT {fields} FROM {self._from[resolution]}.{quoted(measurement)} "  # noqa: S608
            f"WHERE time >= {start_ns} AND time < {stop_ns} AND \"by\" = ''{own} GROUP BY {group}"
        )


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _times(one: QlSeries) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([row[0] for row in one.rows], dtype=np.int64)


def _values(one: QlSeries) -> FloatArray:
    return np.array([row[1:] for row in one.rows], dtype=np.float64)  # None turns into NaN
