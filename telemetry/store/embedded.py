"""Embedded store, which needs no server: one SQLite file, chunks of whole tables, raw for days, rollups for a year.

One process writes; any number read at the same time. A chunk is one transaction, so a killed writer leaves only whole
chunks. Small chunks are merged once they cover a minute, which makes them smaller.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from telemetry.clock import Clock, SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.errors import TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.store.chunks import decode_chunk, encode_chunk, spec_from_json, spec_to_json
from telemetry.store.merge import merge_frames, newest_values
from telemetry.store.resolution import Resolution
from telemetry.store.sqlite import open_database, open_read_only, size_bytes, transaction

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
_NS_PER_S = 1_000_000_000
_DAY_NS = 86_400 * _NS_PER_S
# Measured on realistic sensor data: 1.29 bytes a value in chunks of 1 s, 1.18 in chunks of 60 s.
_MERGE_CHUNKS = 60
# heuristic: chunks deleted at once when the file exceeds its bound, so that deletes are rare.
_TRIM_CHUNKS = 64
# Retention is checked once in so many writes, about every minute.
_TRIM_WRITES = 128
_END_NS = (1 << 63) - 1


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

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, resolution: Resolution
    ) -> Frame:
        """Return the signals of every entity of one kind over ``[start_ns, stop_ns)``.

        `signals` are names of the catalogue for raw samples (``power_w``) and of statistics for rollups
        (``power_w_mean``). A row has at least one value; NaN and not fresh where there is none at that time. Every
        entity with a sample in the interval has a column; a frame without rows is no error.
        """
        with self._lock:
            frames = list(_frames(self._connection, resolution, start_ns, stop_ns, kind))
        wanted = set(signals)
        return merge_frames(kind, signals, [frame for frame in frames if wanted.intersection(frame.spec.signals)])

    def latest(self, kind: EntityKind, *, since_ns: int) -> Frame:
        """Return the newest known value of every signal as one row or none.

        The row has the time of the newest value. Nothing older than `since_ns` counts.
        """
        with self._lock:
            return newest_values(kind, list(_frames(self._connection, Resolution.ROLLUP, since_ns, _END_NS, kind)))

    def frames(self, *, start_ns: int, stop_ns: int, resolution: Resolution = Resolution.RAW) -> Iterator[Frame]:
        """Yield whole frames as they were written, held rows included, in order of time."""
        with contextlib.closing(open_read_only(self._path, version=_VERSION)) as connection:
            yield from _frames(connection, resolution, start_ns, stop_ns, None)

    def entities(self) -> tuple[Entity, ...]:
        """Return every entity that has samples here, each with its newest name and tags."""
        with self._lock:
            try:
                rows = self._connection.execute("SELECT columns FROM spec ORDER BY id").fetchall()
            except sqlite3.Error as err:
                raise TransientError(f"embedded store: cannot be read now: {err}") from err
        found = {entity.id: entity for (columns,) in rows for entity in spec_from_json(columns).entities}
        return tuple(found.values())

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
        self._spec_ids: dict[TableSpec, int] = {}
        self._writes = 0

    def write_raw(self, frames: Sequence[Frame]) -> None:
        """Write frames from the sampler."""
        self._write(Resolution.RAW, frames)

    def write_rollups(self, frames: Sequence[Frame]) -> None:
        """Write frames from `telemetry.rollup`."""
        self._write(Resolution.ROLLUP, frames)

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
                self._writes += 1
                if self._writes % _TRIM_WRITES == 0:
                    self._trim()
            self._spec_ids |= fresh_ids

    def _spec_id(self, spec: TableSpec, fresh_ids: dict[TableSpec, int]) -> int:
        known = self._spec_ids.get(spec) or fresh_ids.get(spec)
        if known is not None:
            return known
        columns = spec_to_json(spec)
        self._connection.execute("INSERT OR IGNORE INTO spec (kind, columns) VALUES (?, ?)", (spec.kind, columns))
        (found,) = self._connection.execute("SELECT id FROM spec WHERE columns = ?", (columns,)).fetchone()
        fresh_ids[spec] = int(found)
        return fresh_ids[spec]

    def _insert(self, resolution: Resolution, spec_id: int, frame: Frame, *, merged: bool) -> None:
        self._connection.execute(
            "INSERT INTO chunk (resolution, spec_id, first_ns, last_ns, merged, body) VALUES (?, ?, ?, ?, ?, ?)",
            (resolution, spec_id, int(frame.time_ns.min()), int(frame.time_ns.max()), merged, encode_chunk(frame)),
        )

    def _merge(self, resolution: Resolution, spec_id: int, spec: TableSpec) -> None:
        unmerged = "FROM chunk WHERE resolution = ? AND spec_id = ? AND NOT merged"
        key = (resolution, spec_id)
        (count,) = self._connection.execute(f"SELECT count(*) {unmerged}", key).fetchone()
        if count < _MERGE_CHUNKS:
            return
        rows = self._connection.execute(f"SELECT id, body {unmerged} ORDER BY first_ns, id", key).fetchall()
        parts = [decode_chunk(spec, body) for _, body in rows]
        whole = Frame(
            spec=spec,
            time_ns=np.concatenate([part.time_ns for part in parts]),
            values=np.concatenate([part.values for part in parts]),
            fresh=np.concatenate([part.fresh for part in parts]),
        )
        self._connection.executemany("DELETE FROM chunk WHERE id = ?", [(row_id,) for row_id, _ in rows])
        self._insert(resolution, spec_id, whole, merged=True)

    def _trim(self) -> None:
        now_ns = self._clock.utc_ns()
        (newest_ns,) = self._connection.execute("SELECT ifnull(max(last_ns), 0) FROM chunk").fetchone()
        # Age counts from the newest sample, so that a machine that was off for a week loses nothing at start, but not
        # from later than now: a row that a wrong clock stamped far ahead must not make all others old.
        reference_ns = min(int(newest_ns), now_ns)
        for resolution, keep_ns in (
            (Resolution.RAW, self._retention.raw_ns),
            (Resolution.ROLLUP, self._retention.rollup_ns),
        ):
            self._connection.execute(
                "DELETE FROM chunk WHERE resolution = ?1 AND (last_ns < ?2 OR (last_ns > ?3 AND first_ns < ?2))",
                (resolution, reference_ns - keep_ns, now_ns),
            )
        while size_bytes(self._connection) > self._retention.max_bytes:
            gone = self._connection.execute(
                "DELETE FROM chunk WHERE id IN"
                " (SELECT id FROM chunk ORDER BY first_ns <= ?, resolution = 'rollup', last_ns LIMIT ?) RETURNING id",
                (now_ns, _TRIM_CHUNKS),
            ).fetchall()
            if not gone:
                break
        self._connection.execute("DELETE FROM spec WHERE id NOT IN (SELECT spec_id FROM chunk)")
        self._spec_ids.clear()
        # Return whole pages to the file system, a few at a time.
        self._connection.execute("PRAGMA incremental_vacuum(1024)").fetchall()


def _frames(
    connection: sqlite3.Connection, resolution: Resolution, start_ns: int, stop_ns: int, kind: EntityKind | None
) -> Iterator[Frame]:
    specs: dict[int, TableSpec] = {}
    try:
        rows = connection.execute(
            "SELECT spec_id, columns, body FROM chunk JOIN spec ON spec.id = spec_id"
            " WHERE resolution = ? AND last_ns >= ? AND first_ns < ? AND kind = ifnull(?, kind)"
            " ORDER BY first_ns, chunk.id",
            (resolution, start_ns, stop_ns, kind),
        )
        for spec_id, columns, body in rows:
            spec = specs.setdefault(spec_id, spec_from_json(columns)) if spec_id not in specs else specs[spec_id]
            frame = decode_chunk(spec, body)
            inside = (frame.time_ns >= start_ns) & (frame.time_ns < stop_ns)
            if inside.all():
                yield frame
            elif inside.any():
                yield Frame(
                    spec=spec,
                    time_ns=frame.time_ns[inside],
                    values=frame.values[inside],
                    fresh=frame.fresh[inside],
                )
    except sqlite3.Error as err:
        raise TransientError(f"embedded store: cannot be read now: {err}") from err
