"""Reads chunks from the database of the embedded store."""

import logging
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Sequence

from telemetry.entities import EntityKind
from telemetry.errors import TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.rollup import coarsen
from telemetry.series import END_NS, between, merge_frames
from telemetry.store.chunks import decode_chunk, spec_from_json

logger = logging.getLogger(__name__)

# heuristic: a read of seconds is coarsened each time this many numbers are decoded, 16 MB; with its copies it takes
# about 60 MB then.
_READ_CELLS = 2_000_000


class StoredChunks:
    """Chunks of one connection. A damaged chunk is skipped, and logged and counted once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.damaged: set[int] = set()

    def frames(
        self,
        resolution: str,
        start_ns: int,
        stop_ns: int,
        kind: EntityKind | None = None,
        columns: Collection[str] | None = None,
    ) -> Iterator[Frame]:
        """Yield the rows of an interval, of one kind and with some of its columns, or all."""
        for _, frame in self._placed(resolution, start_ns, stop_ns, kind, columns):
            yield frame

    def coarsened(
        self, resolution: str, start_ns: int, stop_ns: int, kind: EntityKind, columns: Sequence[str], *, step_ns: int
    ) -> Iterator[Frame]:
        """Yield the rows of longer steps, each step in one frame; few of the short rows are in memory at a time."""
        waiting: list[Frame] = []
        cells = 0
        for first_ns, frame in self._placed(resolution, start_ns, stop_ns, kind, columns):
            edge_ns = first_ns - first_ns % step_ns  # no later frame has rows before
            if cells >= _READ_CELLS and any(int(one.time_ns.min()) < edge_ns for one in waiting):
                yield coarsen(merge_frames(kind, columns, [between(one, 0, edge_ns) for one in waiting]), step_ns)
                waiting = [rest for one in waiting if len(rest := between(one, edge_ns, END_NS))]
                cells = sum(one.values.size for one in waiting)
            waiting.append(frame)
            cells += frame.values.size
        if waiting:
            yield coarsen(merge_frames(kind, columns, waiting), step_ns)

    def _placed(
        self,
        resolution: str,
        start_ns: int,
        stop_ns: int,
        kind: EntityKind | None,
        columns: Collection[str] | None,
    ) -> Iterator[tuple[int, Frame]]:
        """Yield frames in order of the first row of their chunk, whose time is with each."""
        try:
            rows = self._connection.execute("SELECT id, columns FROM spec WHERE kind = ifnull(?, kind)", (kind,))
            specs = {spec_id: spec_from_json(text) for spec_id, text in rows}
            if columns is not None:
                specs = {key: spec for key, spec in specs.items() if not set(columns).isdisjoint(spec.signals)}
            chunks = self._connection.execute(
                # The ids are whole numbers from this file.
                "SELECT id, spec_id, first_ns, body FROM chunk WHERE resolution = ? AND last_ns >= ? AND first_ns < ?"  # noqa: S608
                f" AND spec_id IN ({', '.join(map(str, specs))}) ORDER BY first_ns, id",
                (resolution, start_ns, stop_ns),
            )
            for chunk_id, spec_id, first_ns, body in chunks:
                for frame in self.decoded(chunk_id, specs[spec_id], body, columns):
                    if len(part := between(frame, start_ns, stop_ns)):
                        yield int(first_ns), part
        except sqlite3.Error as err:
            raise TransientError(f"embedded store: cannot be read now: {err}") from err

    def decoded(
        self, chunk_id: int, spec: TableSpec, body: bytes, columns: Collection[str] | None = None
    ) -> tuple[Frame, ...]:
        """Return the frame of a chunk, nothing if it is damaged."""
        try:
            return (decode_chunk(spec, body, columns),)
        except (zlib.error, ValueError, KeyError, IndexError) as err:
            if chunk_id not in self.damaged:
                logger.warning("embedded store: chunk %s is damaged, its rows are skipped: %s", chunk_id, err)
            self.damaged.add(chunk_id)
            return ()
