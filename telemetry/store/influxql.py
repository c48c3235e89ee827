"""InfluxQL over HTTP, the one query language that InfluxDB 1.x, 2.x, 3.x and Grafana share."""

import json
from dataclasses import dataclass
from typing import Any

import urllib3

from telemetry.errors import TransientError
from telemetry.store.http_text import text_of


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
