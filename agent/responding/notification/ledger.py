"""Ledger of sent and waiting messages: one SQLite file, bounded, that survives a kill and a power cut."""

# ruff: noqa: S608 -- the name of the table is a constant

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.responding.notification.notice import Notice, notice_from_json, notice_to_json
from telemetry.clock import NS_PER_S
from telemetry.json_text import json_text
from telemetry.records import Severity
from telemetry.store.sqlite import open_database, open_read_only, transaction

FILE_NAME = "notification.sqlite"
_VERSION = 1
# Table of each incident with its severity and the routes that were notified; quiet: not sent because of a silence.
_NOTIFIED = "told"
# `waiting` has each message of each route until it is delivered.
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {_NOTIFIED} (
  incident TEXT PRIMARY KEY, time_ns INTEGER NOT NULL, quiet INTEGER NOT NULL, closed INTEGER NOT NULL,
  routes TEXT NOT NULL, notice TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS waiting (
  position INTEGER PRIMARY KEY AUTOINCREMENT, route TEXT NOT NULL, token TEXT NOT NULL, rank INTEGER NOT NULL,
  time_ns INTEGER NOT NULL, notice TEXT NOT NULL, UNIQUE (route, token));
CREATE TABLE IF NOT EXISTS tally (route TEXT NOT NULL, what TEXT NOT NULL, many INTEGER NOT NULL,
  PRIMARY KEY (route, what));
CREATE TABLE IF NOT EXISTS trouble (route TEXT PRIMARY KEY, time_ns INTEGER NOT NULL, words TEXT NOT NULL)
"""
# heuristic: a closed incident may be reported again by a replay for this long; an open one without updates for longer
# belongs to an incident book that was lost.
_CLOSED_KEPT_NS = 7 * 86_400 * NS_PER_S
_OPEN_KEPT_NS = 30 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedIncident:
    """Newest message about one incident; `quiet` if a silence held it back."""

    notice: Notice
    routes: tuple[str, ...]
    quiet: bool
    closed: bool

    @property
    def severity(self) -> Severity:
        """Severity in that message."""
        return self.notice.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedNotice:
    """Message of one route that is not yet delivered."""

    position: int
    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteState:
    """State of one route: messages sent, lost and waiting, and the last error."""

    route: str
    sent: int
    lost: int
    waiting: int
    trouble: str


class Ledger:
    """Sent and waiting messages; every method may be called from any thread.

    Every lost message is counted.

    `most` limits the messages that wait on all routes; beyond it the least severe are dropped first, the oldest among
    them. EnvironmentLacksError where the file cannot be used.
    """

    def __init__(self, folder: Path, *, most: int = 1000, read_only: bool = False) -> None:
        path = folder / FILE_NAME
        self._what = str(path)
        self._most = most
        self._lock = threading.Lock()
        if read_only:
            self._connection = open_read_only(path, version=_VERSION)
            return
        self._connection = open_database(path, schema=_SCHEMA, version=_VERSION)
        # A message is sent once, often just before a power cut: it has to be on disk.
        self._connection.execute("PRAGMA synchronous=FULL")

    def notified(self, incident_id: str) -> NotifiedIncident | None:
        """Return the newest message about an incident, None if there was none."""
        rows = self._rows(f"SELECT notice, routes, quiet, closed FROM {_NOTIFIED} WHERE incident = ?", incident_id)
        return _notified(rows[0]) if rows else None

    def open_notified(self, route: str) -> tuple[Notice, ...]:
        """Return the newest message on a route about each incident that is still open."""
        rows = self._rows(
            f"SELECT notice, routes, quiet, closed FROM {_NOTIFIED} WHERE closed = 0 AND quiet = 0 ORDER BY time_ns"
        )
        return tuple(found.notice for found in map(_notified, rows) if route in found.routes)

    def enqueue(
        self, notice: Notice, routes: Sequence[str], *, notified_routes: Sequence[str], quiet: bool = False
    ) -> int:
        """Put a message into the queue of each route; return how many others were dropped to make room.

        The same message twice changes nothing. `notified_routes` are all routes that know of the incident.
        """
        body = notice_to_json(notice)
        with self._changing():
            self._connection.executemany(
                "INSERT OR IGNORE INTO waiting (route, token, rank, time_ns, notice) VALUES (?, ?, ?, ?, ?)",
                [(route, notice.token, notice.severity.rank, notice.time_ns, body) for route in routes],
            )
            self._connection.execute(
                f"INSERT OR REPLACE INTO {_NOTIFIED} (incident, time_ns, quiet, closed, routes, notice)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    notice.incident_id,
                    notice.time_ns,
                    int(quiet),
                    int(notice.over),
                    json_text(list(notified_routes)),
                    body,
                ),
            )
            return self._make_room(notice.time_ns)

    def forget(self, incident_id: str) -> None:
        """Drop an incident about which no message was sent."""
        with self._changing():
            self._connection.execute(f"DELETE FROM {_NOTIFIED} WHERE incident = ? AND quiet = 1", (incident_id,))

    def waiting(self, route: str, *, most: int) -> tuple[QueuedNotice, ...]:
        """Return the waiting messages of a route, the oldest first."""
        query = "SELECT position, notice FROM waiting WHERE route = ? ORDER BY position LIMIT ?"
        rows = self._rows(query, route, most)
        return tuple(QueuedNotice(position=position, notice=notice_from_json(body)) for position, body in rows)

    def delivered(self, route: str, positions: Sequence[int]) -> None:
        """Remove delivered messages from the queue."""
        with self._changing():
            self._remove(positions)
            self._count(route, "sent", len(positions))
            self._connection.execute("DELETE FROM trouble WHERE route = ?", (route,))

    def lose(self, route: str, positions: Sequence[int]) -> None:
        """Remove messages that cannot be delivered from the queue, and count them as lost."""
        with self._changing():
            self._remove(positions)
            self._count(route, "lost", len(positions))

    def note_trouble(self, route: str, reason: str, *, now_ns: int) -> None:
        """Keep the reason why delivery on a route fails."""
        with self._changing():
            self._connection.execute("INSERT OR REPLACE INTO trouble VALUES (?, ?, ?)", (route, now_ns, reason))

    def states(self) -> tuple[RouteState, ...]:
        """Return the state of each route."""
        with self._lock:
            tally = {(route, what): many for route, what, many in self._connection.execute("SELECT * FROM tally")}
            waits = dict(self._connection.execute("SELECT route, count(*) FROM waiting GROUP BY route").fetchall())
            troubles = dict(self._connection.execute("SELECT route, words FROM trouble").fetchall())
        names = sorted({*(route for route, _ in tally), *waits, *troubles})
        return tuple(
            RouteState(
                route=name,
                sent=tally.get((name, "sent"), 0),
                lost=tally.get((name, "lost"), 0),
                waiting=waits.get(name, 0),
                trouble=troubles.get(name, ""),
            )
            for name in names
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _rows(self, query: str, *arguments: str | int) -> list[Any]:
        with self._lock:
            return self._connection.execute(query, arguments).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock, transaction(self._connection, self._what):
            yield

    def _remove(self, positions: Sequence[int]) -> None:
        self._connection.executemany("DELETE FROM waiting WHERE position = ?", [(one,) for one in positions])

    def _count(self, route: str, what: str, many: int) -> None:
        self._connection.execute(
            "INSERT INTO tally VALUES (?, ?, ?) ON CONFLICT (route, what) DO UPDATE SET many = many + excluded.many",
            (route, what, many),
        )

    def _make_room(self, now_ns: int) -> int:
        execute = self._connection.execute
        execute(f"DELETE FROM {_NOTIFIED} WHERE closed = 1 AND time_ns < ?", (now_ns - _CLOSED_KEPT_NS,))
        execute(f"DELETE FROM {_NOTIFIED} WHERE time_ns < ?", (now_ns - _OPEN_KEPT_NS,))
        over = execute("SELECT count(*) FROM waiting").fetchone()[0] - self._most
        if over <= 0:
            return 0
        rows = execute("SELECT position, route FROM waiting ORDER BY rank, position LIMIT ?", (over,)).fetchall()
        self._remove([position for position, _ in rows])
        for _, route in rows:
            self._count(route, "lost", 1)
        return int(over)


def _notified(row: tuple[str, str, int, int]) -> NotifiedIncident:
    notice, routes, quiet, closed = row
    return NotifiedIncident(
        notice=notice_from_json(notice), routes=tuple(json.loads(routes)), quiet=bool(quiet), closed=bool(closed)
    )
