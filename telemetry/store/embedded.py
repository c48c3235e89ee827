"""Embedded store, which needs no server: one SQLite file, chunks of whole tables, raw for days, rollups for a year.

One process writes; any number read at the same time. A chunk is one transaction, so a killed writer leaves only whole
chunks. Small chunks are merged, which makes them smaller. Rollups of a minute and of ten minutes are computed from the
stored ones of a second, so that a read of a year decodes few rows.
"""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from telemetry.clock import NS_PER_S, Clock, SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.errors import TransientError
from telemetry.frames import Frame, TableSpec, joined_frames
from telemetry.rollup import Resolution, coarsen
from telemetry.series import FULL_RATE, merge_frames, rollup_columns
from telemetry.store.chunks import encode_chunk, spec_from_json, spec_to_json
from telemetry.store.sqlite import open_database, open_read_only, size_bytes, transaction
from telemetry.store.stored_chunks import StoredChunks

logger = logging.getLogger(__name__)

FILE_NAME = "samples.sqlite"
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spec (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, columns TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS chunk (
  id INTEGER PRIMARY KEY, resolution TEXT NOT NULL, spec_id INTEGER NOT NULL REFERENCES spec (id),
  first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, merged INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS chunk_by_time ON chunk (resolution, last_ns, first_ns);
CREATE INDEX IF NOT EXISTS chunk_unmerged ON chunk (resolution, spec_id) WHERE NOT merged
"""
_DAY_NS = 86_400 * NS_PER_S
# Rollups of longer steps in the file, the longest first; the names are those of `chunk.resolution`.
_COARSE: dict[str, int] = {"ten_minutes": 600 * NS_PER_S, "minute": 60 * NS_PER_S}
# Length of the span that is rolled up at a time, and how long late rows are awaited: the slowest sources have a row
# every ten seconds, and a rollup is complete with the next one.
_WINDOW_NS = 600 * NS_PER_S
_LATENESS_NS = 60 * NS_PER_S
# heuristic: the last hours, which may not be rolled up yet, are read by the second; what is older then is not (only in
# a store of an earlier version, for its first hours).
_TAIL_NS = 7200 * NS_PER_S
# heuristic: a write rolls up windows for no longer than this, so that records still reach the page. With eight GPUs
# that is a dozen windows: a store of an earlier version with 30 days of seconds catches up within about half an hour.
_CATCH_UP_S = 0.5
# Chunks are merged once they cover so many seconds together; a begun second counts as a whole. Measured on realistic
# sensor data: 1.29 bytes a value in chunks of 1 s, 1.18 in chunks of 60 s.
_MERGE_S = 60
# Chunks of longer steps, one of each window, are merged to a day: a read of a year is bound by their number.
_MERGE_WINDOWS = 144
# heuristic: chunks deleted at once when the file exceeds its bound, so that deletes are rare.
_TRIM_CHUNKS = 64
# Retention is checked once in so many writes: about every minute, with two writes every 5 s.
_TRIM_WRITES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedRetention:
    """Retention and size limit of the embedded store; the oldest raw samples are deleted first.

    heuristic: eight GPUs at 100 Hz make about 2 GB a day of raw samples.
    """

    raw_ns: int = 7 * _DAY_NS
    rollup_ns: int = 400 * _DAY_NS
    max_bytes: int = 4 << 30


class EmbeddedReader:
    """Reads the embedded store, from the writing process or from any other, while it is written."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._lock = threading.Lock()
        self._connection = open_read_only(self._path, version=_VERSION)
        self._chunks = StoredChunks(self._connection)

    @property
    def damaged_chunks(self) -> int:
        """Number of damaged chunks that were met so far; their rows are missing."""
        return len(self._chunks.damaged)

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int = FULL_RATE
    ) -> Frame:
        """Return signals of every entity of one kind over ``[start_ns, stop_ns)``; see `SampleReader.series`.

        A step is read from the longest rollups that divide it. Every entity with a sample in the interval has a column.
        Reading a year of eight GPUs in steps of hours takes half a second.
        """
        if step_ns == FULL_RATE:
            return merge_frames(kind, signals, self._read(Resolution.RAW, start_ns, stop_ns, kind, signals))
        if step_ns % NS_PER_S:
            raise ValueError(f"step of {step_ns} ns: expected whole seconds")
        columns = rollup_columns(kind, signals)
        coarse = next((name for name, length_ns in _COARSE.items() if step_ns % length_ns == 0), None)
        # A step that began before the interval counts as a whole.
        start_ns -= start_ns % step_ns
        rows: list[Frame] = []
        if coarse is not None:
            rows = self._read(coarse, start_ns, stop_ns, kind, columns)
            end_ns = max((int(frame.time_ns[-1]) + _COARSE[coarse] for frame in rows), default=start_ns)
            start_ns = max(end_ns, self._newest_ns(stop_ns) - _TAIL_NS)
        short_ns = step_ns if coarse is None else _COARSE[coarse]
        rows += self._read(Resolution.ROLLUP, start_ns, stop_ns, kind, columns, step_ns=short_ns)
        merged = merge_frames(kind, columns, rows)
        return merged if coarse is None else coarsen(merged, step_ns)

    def frames(self, *, start_ns: int, stop_ns: int) -> Iterator[Frame]:
        """Yield whole frames as they were written, held rows included, in order of time."""
        with contextlib.closing(open_read_only(self._path, version=_VERSION)) as connection:
            chunks = StoredChunks(connection)
            chunks.damaged = self._chunks.damaged
            yield from chunks.frames(Resolution.RAW, start_ns, stop_ns)

    def entities(self) -> tuple[Entity, ...]:
        """Return every entity that has samples here, each with its newest name and tags."""
        with self._lock:
            try:
                rows = self._connection.execute("SELECT columns FROM spec ORDER BY id").fetchall()
            except sqlite3.Error as err:
                raise TransientError(f"embedded store: cannot be read now: {err}") from err
        found = {entity.id: entity for (columns,) in rows for entity in spec_from_json(columns).entities}
        return tuple(found.values())

    def _newest_ns(self, stop_ns: int) -> int:
        """Return the time of the newest rollup of a second before a time, 0 without one."""
        with self._lock:
            try:
                newest = self._connection.execute(
                    "SELECT last_ns FROM chunk WHERE resolution = ? AND first_ns < ? ORDER BY last_ns DESC LIMIT 1",
                    (Resolution.ROLLUP, stop_ns),
                ).fetchone()
            except sqlite3.Error as err:
                raise TransientError(f"embedded store: cannot be read now: {err}") from err
        return 0 if newest is None else min(int(newest[0]), stop_ns)

    def _read(
        self,
        resolution: str,
        start_ns: int,
        stop_ns: int,
        kind: EntityKind,
        columns: Sequence[str],
        *,
        step_ns: int | None = None,
    ) -> list[Frame]:
        """Return the rows of an interval; with a step they are coarsened as they are read, a bound number at a time."""
        with self._lock:
            if step_ns is None:
                return [*self._chunks.frames(resolution, start_ns, stop_ns, kind, columns)]
            return [*self._chunks.coarsened(resolution, start_ns, stop_ns, kind, columns, step_ns=step_ns)]

    def size_bytes(self) -> int:
        """Return the bytes that hold data."""
        with self._lock:
            return size_bytes(self._connection)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class EmbeddedStore:
    """Writes the embedded store; one process at a time.

    Every method may be called from any thread. Each call is one transaction: kept as a whole or, with TransientError
    (a full disk), not at all.
    """

    def __init__(
        self, directory: Path, *, retention: EmbeddedRetention | None = None, clock: Clock | None = None
    ) -> None:
        self._retention = retention or EmbeddedRetention()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._connection = open_database(directory / FILE_NAME, schema=_SCHEMA, version=_VERSION)
        self._chunks = StoredChunks(self._connection)
        self._spec_ids: dict[TableSpec, int] = {}
        self._writes = 0
        self._rolled: _Rolled | None = None

    def write_raw(self, frames: Sequence[Frame]) -> None:
        """Write frames from the sampler."""
        self._write(Resolution.RAW, frames)

    def write_rollups(self, frames: Sequence[Frame]) -> None:
        """Write frames from `telemetry.rollup`."""
        self._write(Resolution.ROLLUP, frames)

    @property
    def damaged_chunks(self) -> int:
        """Number of damaged chunks that were met while merging; their rows are lost."""
        return len(self._chunks.damaged)

    def newest_raw_ns(self, spec: TableSpec) -> int | None:
        """Return the time of the newest raw row of a table, None without one.

        Raises
        ------
        TransientError
            The file cannot be read now.
        """
        try:
            with self._lock:
                (newest,) = self._connection.execute(
                    "SELECT max(last_ns) FROM chunk JOIN spec ON spec.id = spec_id"
                    " WHERE resolution = ? AND columns = ?",
                    (Resolution.RAW, spec_to_json(spec)),
                ).fetchone()
        except sqlite3.Error as err:
            raise TransientError(f"embedded store: cannot be read now: {err}") from err
        return None if newest is None else int(newest)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _write(self, resolution: Resolution, frames: Sequence[Frame]) -> None:
        with self._lock:
            fresh_ids: dict[TableSpec, int] = {}
            with transaction(self._connection, "embedded store: cannot write samples"):
                for frame in frames:
                    if len(frame):
                        spec_id = self._spec_id(frame.spec, fresh_ids)
                        self._insert(resolution, spec_id, frame, merged=False)
                        self._merge(resolution, spec_id, frame.spec)
                rolled = self._rolled
                if resolution is Resolution.ROLLUP and any(map(len, frames)):
                    rolled = self._roll_up(frames, fresh_ids)
                self._writes += 1
                if self._writes % _TRIM_WRITES == 0:
                    self._trim()
                    fresh_ids.clear()
            self._spec_ids |= fresh_ids
            self._rolled = rolled

    def _spec_id(self, spec: TableSpec, fresh_ids: dict[TableSpec, int]) -> int:
        known = self._spec_ids.get(spec) or fresh_ids.get(spec)
        if known is not None:
            return known
        columns = spec_to_json(spec)
        self._connection.execute("INSERT OR IGNORE INTO spec (kind, columns) VALUES (?, ?)", (spec.kind, columns))
        (found,) = self._connection.execute("SELECT id FROM spec WHERE columns = ?", (columns,)).fetchone()
        fresh_ids[spec] = int(found)
        return fresh_ids[spec]

    def _roll_up(self, frames: Sequence[Frame], fresh_ids: dict[TableSpec, int]) -> "_Rolled":
        """Write the coarse rollups of windows that are over, for at most `_CATCH_UP_S`; return what is rolled up then.

        A window with late rows, as after a step of the clock, is rolled up again once the newest of the new rows are
        past it; readers prefer the later rows.
        """
        before = self._rolled or _Rolled(until_ns=self._stored_until_ns(), late_ns=frozenset())
        begun_s = self._clock.monotonic_s()
        newest_ns = max(int(frame.time_ns.max()) for frame in frames if len(frame))
        over_ns = newest_ns - _WINDOW_NS - _LATENESS_NS  # newest start of a window that is over
        windows = {int(number) * _WINDOW_NS for frame in frames for number in np.unique(frame.time_ns // _WINDOW_NS)}
        late_ns = before.late_ns | {start_ns for start_ns in windows if start_ns < before.until_ns}
        due_ns = {start_ns for start_ns in late_ns if start_ns <= over_ns}
        for start_ns in due_ns:
            self._write_coarse(start_ns, start_ns + _WINDOW_NS, fresh_ids)
        until_ns = before.until_ns
        while until_ns <= over_ns:
            until_ns = max(until_ns, self._next_window_ns(until_ns))
            if until_ns > over_ns:
                break
            self._write_coarse(until_ns, until_ns + _WINDOW_NS, fresh_ids)
            until_ns += _WINDOW_NS
            if self._clock.monotonic_s() - begun_s >= _CATCH_UP_S:
                break
        return _Rolled(until_ns=until_ns, late_ns=late_ns - due_ns)

    def _stored_until_ns(self) -> int:
        """Return the end of the newest window that is rolled up in the file, 0 without one."""
        (last_ns,) = self._connection.execute(
            "SELECT max(last_ns) FROM chunk WHERE resolution = 'ten_minutes'"
        ).fetchone()
        return 0 if last_ns is None else _window_of(int(last_ns)) + _WINDOW_NS

    def _next_window_ns(self, start_ns: int) -> int:
        """Return the start of the first window with rows from a time on; a span without rows is passed over."""
        (first_ns,) = self._connection.execute(
            "SELECT first_ns FROM chunk WHERE resolution = ? AND last_ns >= ? ORDER BY last_ns LIMIT 1",
            (Resolution.ROLLUP, start_ns),
        ).fetchone()
        return _window_of(int(first_ns))

    def _write_coarse(self, start_ns: int, stop_ns: int, fresh_ids: dict[TableSpec, int]) -> None:
        tables: dict[TableSpec, list[Frame]] = {}
        for frame in self._chunks.frames(Resolution.ROLLUP, start_ns, stop_ns):
            tables.setdefault(frame.spec, []).append(frame)
        for spec, frames in tables.items():
            merged = merge_frames(spec.kind, spec.signals, frames)
            seconds = Frame(spec=spec, time_ns=merged.time_ns, values=merged.values, fresh=merged.fresh)
            for name, length_ns in _COARSE.items() if len(merged) else ():
                spec_id = self._spec_id(spec, fresh_ids)
                self._insert(name, spec_id, coarsen(seconds, length_ns), merged=False)
                self._merge(name, spec_id, spec)

    def _insert(self, resolution: str, spec_id: int, frame: Frame, *, merged: bool) -> None:
        self._connection.execute(
            "INSERT INTO chunk (resolution, spec_id, first_ns, last_ns, merged, body) VALUES (?, ?, ?, ?, ?, ?)",
            (resolution, spec_id, int(frame.time_ns.min()), int(frame.time_ns.max()), merged, encode_chunk(frame)),
        )

    def _merge(self, resolution: str, spec_id: int, spec: TableSpec) -> None:
        unmerged = "FROM chunk WHERE resolution = ? AND spec_id = ? AND NOT merged"
        key = (resolution, spec_id)
        count, covered_s = self._connection.execute(
            f"SELECT count(*), sum((last_ns - first_ns) / {NS_PER_S} + 1) {unmerged}", key
        ).fetchone()
        if count < _MERGE_WINDOWS if resolution in _COARSE else (covered_s or 0) < _MERGE_S:
            return
        rows = self._connection.execute(f"SELECT id, body {unmerged} ORDER BY first_ns, id", key).fetchall()
        parts = [part for row_id, body in rows for part in self._chunks.decoded(row_id, spec, body)]
        self._connection.executemany("DELETE FROM chunk WHERE id = ?", [(row_id,) for row_id, _ in rows])
        if parts:
            self._insert(resolution, spec_id, joined_frames(parts), merged=True)

    def _trim(self) -> None:
        now_ns = self._clock.utc_ns()
        (newest_ns,) = self._connection.execute("SELECT ifnull(max(last_ns), 0) FROM chunk").fetchone()
        # Age counts from the newest sample, so that a machine that was off for a week loses nothing at start, but not
        # from later than now: a row that a wrong clock stamped far ahead must not make all others old.
        reference_ns = min(int(newest_ns), now_ns)
        for resolution in (Resolution.RAW, Resolution.ROLLUP, *_COARSE):
            keep_ns = self._retention.raw_ns if resolution == Resolution.RAW else self._retention.rollup_ns
            self._connection.execute(
                "DELETE FROM chunk WHERE resolution = ?1 AND (last_ns < ?2 OR (last_ns > ?3 AND first_ns < ?2))",
                (resolution, reference_ns - keep_ns, now_ns),
            )
        while size_bytes(self._connection) > self._retention.max_bytes:
            gone = self._connection.execute(
                "DELETE FROM chunk WHERE id IN"
                " (SELECT id FROM chunk ORDER BY first_ns <= ?, resolution <> 'raw', resolution <> 'rollup', last_ns"
                " LIMIT ?) RETURNING id",
                (now_ns, _TRIM_CHUNKS),
            ).fetchall()
            if not gone:
                break
        self._connection.execute("DELETE FROM spec WHERE id NOT IN (SELECT spec_id FROM chunk)")
        self._spec_ids.clear()
        # Return whole pages to the file system, a few at a time.
        self._connection.execute("PRAGMA incremental_vacuum(1024)").fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rolled:
    """What is rolled up: every window before `until_ns`, but for those starts of windows that had late rows since."""

    until_ns: int
    late_ns: frozenset[int]


def _window_of(time_ns: int) -> int:
    return time_ns - time_ns % _WINDOW_NS
