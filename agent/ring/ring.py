"""The ring: the newest minutes of every table at full rate, in a file that processes map into memory.

Layout: magic, length of the header, header (JSON), then one page-aligned section per table::

    claimed u64 | committed u64 | ... 4096 bytes
    time_ns i64[rows] | values f64[rows, entities, signals] | fresh u8[rows, entities, signals]

Row ``n`` lies in slot ``n % rows``. The one writer of a table raises `claimed` before it touches a slot and
`committed` after; a reader copies the rows below `committed` and then drops those that `claimed` shows to have been
overwritten meanwhile, so a row is whole or counted as lost, never torn. The counters are aligned 64-bit integers, and
stores and loads keep their order on x86-64 (Intel SDM vol. 3A, 9.2.2). AArch64 may reorder them, and nothing that the
interpreter promises holds them back, since writer and reader share no lock: there a reader may take a row for whole
whose last stores are still on their way. Nothing is buffered in the writer, so a killed writer leaves every committed
row readable, and the next writer with the same tables goes on where it ended.

Keep the file on tmpfs: on a disk, write-back of dirty pages can hold an append for hundreds of milliseconds.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from agent.ring.header import SCHEMA_VERSION, RingHeader, header_from_json, header_to_json
from telemetry.entities import Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import CellView, FloatArray, Frame, MaskArray, TableSpec
from telemetry.json_text import json_bytes

_MAGIC = b"RWRING\x00\x01"
_PREFIX = struct.Struct("<8sQ")
_PAGE_BYTES = 4096
_MAX_HEADER_BYTES = 16 << 20
_CLAIMED, _COMMITTED = 0, 1
ScalarT = TypeVar("ScalarT", bound=np.generic)
# Rows that a search for a time goes back at first: most readers are some tenths of a second behind.
_FIRST_LOOK_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRead:
    """Result of one read: rows, the next row to read, and how many rows were overwritten before they were read."""

    next: int
    lost: int
    frame: Frame


class RingTable:
    """Table of a ring: appended to by one writer, read by any process.

    Attributes
    ----------
    spec
        Its entities and signals.
    rows
        How many rows it holds before the oldest is overwritten.
    """

    def __init__(self, spec: TableSpec, rows: int, memory: mmap.mmap, offset_bytes: int) -> None:
        self.spec = spec
        self.rows = rows
        row_cells = spec.shape[0] * spec.shape[1]
        cells = rows * row_cells
        shape = (rows, *spec.shape)
        times_at = offset_bytes + _PAGE_BYTES
        values_at = times_at + 8 * rows
        fresh_at = values_at + 8 * cells
        # The writer sets bytes and integers through memory views: after every sleep that costs a fifth of what it costs
        # through NumPy, whose code has left the processor's caches by then.
        bytes_view = memoryview(memory)
        self._counters = bytes_view[offset_bytes : offset_bytes + 16].cast("Q")
        self._stamps = bytes_view[times_at:values_at].cast("q")
        self._value_bytes = bytes_view[values_at:fresh_at]
        self._value_cells = self._value_bytes.cast("d")
        self._fresh_bytes = bytes_view[fresh_at : fresh_at + cells]
        self._row_cells = row_cells
        self._time_ns = np.frombuffer(memory, np.int64, rows, times_at)
        self._values: FloatArray = np.frombuffer(memory, np.float64, cells, values_at).reshape(shape)
        self._fresh: MaskArray = np.frombuffer(memory, np.bool_, cells, fresh_at).reshape(shape)

    @property
    def count(self) -> int:
        """Rows appended since the ring was made; also the number of the next row."""
        return self._counters[_COMMITTED]

    def append(self, time_ns: int, values: FloatArray, fresh: MaskArray) -> None:
        """Add one row of shape ``(n_entities, n_signals)``; the oldest row is overwritten."""
        self.append_bytes(time_ns, values.tobytes(), fresh.tobytes())

    def append_bytes(self, time_ns: int, values: bytes, fresh: bytes) -> None:
        """Append one row as the bytes of float64 values and of booleans; ValueError where the size is wrong."""
        number = self._counters[_COMMITTED]
        slot = number % self.rows
        cells = self._row_cells
        self._counters[_CLAIMED] = number + 1
        self._stamps[slot] = time_ns
        self._value_bytes[8 * cells * slot : 8 * cells * (slot + 1)] = values
        self._fresh_bytes[cells * slot : cells * (slot + 1)] = fresh
        self._counters[_COMMITTED] = number + 1

    def newest(self) -> CellView:
        """Return the cells of the newest row, for the thread that wrote it; ValueError without a row."""
        if self.count == 0:
            raise ValueError(f"table {self.spec.name} has no rows")
        at = (self.count - 1) % self.rows * self._row_cells
        return self._value_cells[at : at + self._row_cells]

    def read(self, since: int, limit: int | None = None) -> RingRead:
        """Copy the rows from number `since` on, the oldest first, at most `limit`.

        A frame ends where the wall clock was stepped back, so that its times ascend; the next read goes on from there.

        Raises
        ------
        ValueError
            `since` is negative or beyond the newest row.
        """
        count = self.count
        if not 0 <= since <= count:
            raise ValueError(f"table {self.spec.name} has rows 0 to {count}; cannot read from row {since}")
        first = max(since, count - self.rows)
        stop = count if limit is None else min(count, first + limit)
        time_ns = self._copied(self._time_ns, first, stop)
        values, fresh = self._copied(self._values, first, stop), self._copied(self._fresh, first, stop)
        intact = min(max(first, self._counters[_CLAIMED] - self.rows), stop)
        skip = intact - first
        stepped_back = time_ns[skip + 1 :] < time_ns[skip:-1]
        if stepped_back.any():
            stop = intact + int(stepped_back.argmax()) + 1
        kept = slice(skip, stop - first)
        frame = Frame(spec=self.spec, time_ns=time_ns[kept], values=values[kept], fresh=fresh[kept])
        return RingRead(next=stop, lost=intact - since, frame=frame)

    def _copied(self, column: npt.NDArray[ScalarT], first: int, stop: int) -> npt.NDArray[ScalarT]:
        """Copy the rows from number `first` up to `stop` of one of the three columns."""
        begin, end = first % self.rows, first % self.rows + stop - first
        if end <= self.rows:
            return column[begin:end].copy()
        return np.concatenate([column[begin:], column[: end - self.rows]])

    def after(self, time_ns: int) -> Frame:
        """Copy the rows later than a time; a read of the newest rows copies little."""
        oldest, first, step = max(0, self.count - self.rows), self.count, _FIRST_LOOK_ROWS
        while first > oldest:
            first = max(oldest, first - step)
            looked = self.read(first, 1).frame
            if len(looked) and int(looked.time_ns[0]) <= time_ns:
                break
            step *= 4
        frame = self.read(first).frame
        return frame.rows(int(np.searchsorted(frame.time_ns, time_ns, side="right")), len(frame))

    def recover(self) -> None:
        """Take over from a writer that died: drop a half-written row, keep committed rows."""
        self._counters[_CLAIMED] = self._counters[_COMMITTED]


class Ring:
    """Tables in shared memory. `create` makes the writer's, `attach` a reader's.

    Attributes
    ----------
    tables
        By name.
    node, topology, simulated
        Origin of the rows, from the writer.
    """

    def __init__(self, path: Path, header: RingHeader, memory: mmap.mmap, lock_fd: int | None) -> None:
        self.path = path
        self.node = header.node
        self.topology: Topology = header.topology
        self.simulated = header.simulated
        self.tables: dict[str, RingTable] = {
            spec.name: RingTable(spec, rows, memory, offset)
            for spec, rows, offset in zip(header.tables, header.rows, header.offsets_bytes, strict=True)
        }
        self._memory = memory
        self._lock_fd = lock_fd
        self._inode = header.inode

    @classmethod
    def create(
        cls,
        path: Path,
        tables: Sequence[TableSpec],
        *,
        node: str,
        topology: Topology,
        simulated: bool,
        rows: Mapping[str, int],
    ) -> "Ring":
        """Make the ring for the one process that writes it, or take over the rows of a dead writer of the same tables.

        Raises
        ------
        EnvironmentLacksError
            Another process writes this ring, or the directory has no room or no permission.
        """
        header = header_to_json(tables, node=node, topology=topology, simulated=simulated, rows=rows)
        body = json_bytes(header, sort_keys=True)
        try:
            with contextlib.suppress(FileNotFoundError):
                adopted = _adopt(path, body)
                if adopted is not None:
                    return adopted
            return _create(path, body, header)
        except OSError as err:
            raise EnvironmentLacksError(f"{path}: cannot make the sample ring: {err.strerror}") from err

    @classmethod
    def attach(cls, path: Path) -> "Ring":
        """Open a ring for reading.

        Raises
        ------
        EnvironmentLacksError
            There is no ring, or it is of another version of railwatch, or cut short.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as err:
            raise EnvironmentLacksError(f"{path}: no sample ring: {err.strerror}; is the agent running?") from err
        try:
            return _map(path, fd, writable=False)
        finally:
            os.close(fd)

    @property
    def identity(self) -> int:
        """The number of its file: another ring in the same place has another one."""
        return self._inode

    @property
    def current(self) -> bool:
        """False once a writer with other tables has put a new ring in its place: attach again."""
        try:
            return os.stat(self.path).st_ino == self._inode  # noqa: PTH116 -- called often; no Path object wanted
        except OSError:
            return False

    def close(self) -> None:
        """Release the writer's lock at once, and the memory with its last view. Closing twice is harmless."""
        self.tables = {}
        if self._lock_fd is not None:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)  # the map holds a copy of the descriptor, and lives on in views
            os.close(self._lock_fd)
            self._lock_fd = None
        with contextlib.suppress(BufferError):  # a frame may still look into it
            self._memory.close()


def _adopt(path: Path, body: bytes) -> Ring | None:
    """Take over an existing file whose header is the same byte for byte; None where it is another."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _lock(path, fd)
        prefix = os.pread(fd, _PREFIX.size + len(body) + 1, 0)
        if prefix[: _PREFIX.size] != _PREFIX.pack(_MAGIC, len(body)) or prefix[_PREFIX.size :][: len(body)] != body:
            os.close(fd)
            return None
        ring = _map(path, fd, writable=True)
    except BaseException:
        os.close(fd)
        raise
    for table in ring.tables.values():
        table.recover()
    return ring


def _create(path: Path, body: bytes, header: dict[str, Any]) -> Ring:
    """Write a new file and rename it into place, so that a reader never sees half a header."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        _lock(path, fd)
        # Allocate now: a store into a page that the file system cannot back kills the process with SIGBUS.
        os.posix_fallocate(fd, 0, header["size_bytes"])
        os.pwrite(fd, _PREFIX.pack(_MAGIC, len(body)) + body, 0)
        fresh.replace(path)
        return _map(path, fd, writable=True)
    except BaseException:
        os.close(fd)
        fresh.unlink(missing_ok=True)
        raise


def _lock(path: Path, fd: int) -> None:
    """Lock the file for its one writer; the lock ends with the process, however it ends."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        if err.errno in (errno.EAGAIN, errno.EACCES):
            raise EnvironmentLacksError(f"{path}: another process writes this sample ring") from err
        raise


def _map(path: Path, fd: int, *, writable: bool) -> Ring:
    status = os.fstat(fd)
    prefix = os.pread(fd, _PREFIX.size, 0)
    if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
        raise EnvironmentLacksError(f"{path}: not a sample ring of schema version {SCHEMA_VERSION}")
    length = _PREFIX.unpack(prefix)[1]
    if length > _MAX_HEADER_BYTES or _PREFIX.size + length > status.st_size:
        raise EnvironmentLacksError(f"{path}: the sample ring is cut short")
    header = header_from_json(os.pread(fd, length, _PREFIX.size), where=str(path), inode=status.st_ino)
    if header.size_bytes > status.st_size:
        raise EnvironmentLacksError(f"{path}: the sample ring is cut short")
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    try:
        return Ring(path, header, mmap.mmap(fd, header.size_bytes, access=access), fd if writable else None)
    except ValueError as err:  # a size or a place that a header does not have unless it is damaged
        raise EnvironmentLacksError(f"{path}: the sample ring does not hold the tables of its header: {err}") from err
