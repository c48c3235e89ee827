"""Local SQLite file of every version of every record, whether or not a server keeps the samples."""

import json
import re
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from telemetry.errors import TransientError
from telemetry.json_text import json_text
from telemetry.record_json import from_json, to_json
from telemetry.records import Incident, IncidentState, Record
from telemetry.store.sqlite import open_database, open_read_only, transaction

FILE_NAME = "records.sqlite"
_VERSION = 1
# `version` has every version, `record` the newest of each record; both hold the whole JSON.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS version (
  position INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, id TEXT NOT NULL, time_ns INTEGER NOT NULL,
  body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS version_by_id ON version (id, position);
CREATE INDEX IF NOT EXISTS version_by_time ON version (time_ns);
CREATE TABLE IF NOT EXISTS record (
  type TEXT NOT NULL, id TEXT NOT NULL, time_ns INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (type, id));
CREATE INDEX IF NOT EXISTS record_by_time ON record (time_ns);
CREATE INDEX IF NOT EXISTS record_by_id ON record (id)
"""
# heuristic: at a kilobyte each this bounds the file near 300 MB, which is years of a normal node.
MAX_VERSIONS = 200_000
# heuristic: share deleted at once when there are too many, so that deletes are rare.
_TRIM_SHARE = 0.1
_FIELD_NAME = re.compile(r"[a-z_]+")


# A page reads some three hundred recent records again whenever one changes.
@lru_cache(maxsize=512)
def _record_of(body: str) -> Record:
    return from_json(json.loads(body))


class RecordFile:
    """File of the records of one data folder; several processes may append and read at the same time.

    Every method may be called from any thread.

    Parameters
    ----------
    read_only
        For commands that only read: the file must exist, and nothing is created.
    simulated
        True if appended records come from a simulated node; stored with each record.
    """

    def __init__(
        self,
        directory: Path,
        *,
        read_only: bool = False,
        max_versions: int = MAX_VERSIONS,
        simulated: bool | None = None,
    ) -> None:
        path = directory / FILE_NAME
        self._path = path
        self._lock = threading.Lock()
        self._simulated = simulated
        self._max_versions = max_versions
        self._connection = (
            open_read_only(path, version=_VERSION)
            if read_only
            else open_database(path, schema=_SCHEMA, version=_VERSION)
        )

    def append(self, records: Sequence[Record]) -> None:
        """Append records, all or none."""
        rows = []
        for record in records:
            body = to_json(record, simulated=self._simulated)
            rows.append((body["type"], record.id, record.time_ns, json_text(body)))
        with self._lock, transaction(self._connection, str(self._path)):
            self._connection.executemany("INSERT INTO version (type, id, time_ns, body) VALUES (?, ?, ?, ?)", rows)
            # A later version is newer, even if the clock was stepped back in between.
            self._connection.executemany(
                "INSERT INTO record (type, id, time_ns, body) VALUES (?, ?, ?, ?) ON CONFLICT (type, id)"
                " DO UPDATE SET time_ns = excluded.time_ns, body = excluded.body",
                rows,
            )
            self._trim()

    def show_more(self, records: Sequence[Record], *, simulated: bool) -> None:
        """Continue in memory with records that the file does not have; for a reader of a run whose disk is full."""
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with self._lock:
            self._connection.backup(memory)
            self._connection.close()
            self._connection = memory
        self._simulated = simulated
        self.append(records)

    def find(
        self,
        record_type: str | None = None,
        *,
        since_ns: int = 0,
        limit: int = 100,
        where: Mapping[str, str] | None = None,
    ) -> tuple[Record, ...]:
        """Return the newest versions, newest first, that changed at or after `since_ns`.

        `record_type` is a key of `telemetry.record_json.RECORD_TYPES`, None for all. `where` compares top-level fields
        of the newest version, such as ``{"state": "open"}``; ValueError for a name that cannot be a field.
        """
        clauses = ["time_ns >= ?"]
        arguments: list[str | int] = [since_ns]
        if record_type is not None:
            clauses.append("type = ?")
            arguments.append(record_type)
        for name, wanted in (where or {}).items():
            if not _FIELD_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a field of a record")
            clauses.append(f"CAST(json_extract(body, '$.{name}') AS TEXT) = ?")
            arguments.append(wanted)
        condition = " AND ".join(clauses)
        return self._read(
            # The names in the condition are checked above, the values are bound.
            f"SELECT body FROM record WHERE {condition} ORDER BY time_ns DESC, rowid DESC LIMIT ?",  # noqa: S608
            *arguments,
            limit,
        )

    def open_incidents(self, *, limit: int = 100) -> tuple[Incident, ...]:
        """Return the incidents that are not closed, at most `limit` of each state; one may be long unchanged."""
        states = (state for state in IncidentState if state is not IncidentState.CLOSED)
        found = (one for state in states for one in self.find("incident", limit=limit, where={"state": state.value}))
        return tuple(one for one in found if isinstance(one, Incident))

    def get(self, record_id: str) -> Record | None:
        """Return the newest version of a record, None where no record has this id."""
        found = self._read("SELECT body FROM record WHERE id = ? ORDER BY time_ns DESC LIMIT 1", record_id)
        return found[0] if found else None

    def simulated(self, record_id: str) -> bool | None:
        """Return True if a record comes from a simulated node, None if that was not stored."""
        rows = self._rows("SELECT json_extract(body, '$.simulated') FROM record WHERE id = ?", record_id)
        return None if not rows or rows[0][0] is None else bool(rows[0][0])

    def history(self, record_id: str) -> tuple[Record, ...]:
        """Return every kept version of a record, oldest first."""
        return self._read("SELECT body FROM version WHERE id = ? ORDER BY position", record_id)

    def between(self, start_ns: int, stop_ns: int) -> tuple[Record, ...]:
        """Return every version of ``[start_ns, stop_ns)`` in the order of appending, for a recording."""
        return self._read(
            "SELECT body FROM version WHERE time_ns >= ? AND time_ns < ? ORDER BY position", start_ns, stop_ns
        )

    def after(self, position: int, *, limit: int = 1000) -> tuple[int, tuple[Record, ...]]:
        """Return the records appended after a position, and the next position; 0 is the beginning."""
        rows = self._rows(
            "SELECT position, body FROM version WHERE position > ? ORDER BY position LIMIT ?", position, limit
        )
        reached = int(rows[-1][0]) if rows else position
        return reached, tuple(_record_of(body) for _, body in rows)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _read(self, statement: str, *arguments: str | int) -> tuple[Record, ...]:
        return tuple(_record_of(body) for (body,) in self._rows(statement, *arguments))

    def _rows(self, statement: str, *arguments: str | int) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(statement, arguments).fetchall()
            except sqlite3.Error as err:
                raise TransientError(f"records: cannot be read now: {err}") from err

    def _trim(self) -> None:
        first, last = self._connection.execute("SELECT min(position), max(position) FROM version").fetchone()
        if last is None or last - first < self._max_versions:
            return
        oldest_kept = last - int(self._max_versions * (1 - _TRIM_SHARE)) + 1
        # An incident that is still open keeps its newest version, however old.
        self._connection.execute("DELETE FROM version WHERE position < ?", (oldest_kept,))
        self._connection.execute(
            "DELETE FROM record WHERE NOT EXISTS (SELECT 1 FROM version WHERE version.id = record.id)"
            " AND NOT (type = 'incident' AND json_extract(body, '$.state') <> 'closed')"
        )
