"""Append-only journals of records: one writing process per file, any number of readers, no loss on a kill.

A record is one JSON line, passed to the kernel in one write before the caller continues, so that it survives the death
of the writer. Readers have a position of their own and see whole lines only.

On a full disk a journal continues in its spill: a file of bounded size in a folder in memory, which every reader
follows as well. The spill lives as long as that folder; records that do not fit there either are counted as lost.
"""

import contextlib
import errno
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from telemetry.errors import EnvironmentLacksError
from telemetry.json_text import json_bytes
from telemetry.record_json import from_json, to_json
from telemetry.records import Record

logger = logging.getLogger(__name__)

# A journal of 16 MiB holds about 20,000 records; one generation behind it is kept for slow readers.
ROTATE_BYTES = 16 << 20
OLD_SUFFIX = ".old"
# heuristic: some 8,000 records, more than a node writes in a week.
SPILL_BYTES = 8 << 20
SPILL_SUFFIX = ".spill"
# A file with one byte for each lost record.
LOST_SUFFIX = ".lost"
# heuristic: free space before a full disk is written again, so that the small records of a moment do not go to the
# disk while the large ones go to memory.
ROOM_BYTES = 256 << 10

# Inode and offset of the journal, then those of its spill where that is followed.
Position = tuple[int, ...]


def has_room(path: Path) -> bool:
    """Return True if the disk of a file or folder has free space, or its file system does not report any."""
    status = os.statvfs(path)
    return status.f_blocks == 0 or status.f_bavail * status.f_frsize >= ROOM_BYTES


def trouble_of(path: Path) -> str:
    """Return the reason why a journal cannot be written, empty if it can or does not exist."""
    try:
        path.open("r+b").close()
        return "" if has_room(path) else f"{path}: {os.strerror(errno.ENOSPC)}"
    except FileNotFoundError:
        return ""
    except OSError as err:
        return f"{path}: {err.strerror}"


def lost_of(path: Path, spill_dir: Path) -> int:
    """Return the number of records that fitted neither on the disk nor in the spill."""
    try:
        return _beside(path, spill_dir, LOST_SUFFIX).stat().st_size
    except OSError:
        return 0


def _beside(path: Path, spill_dir: Path, suffix: str) -> Path:
    return spill_dir / f"{path.name}{suffix}"


class RecordJournalWriter:
    """Appends records to one file; rotates it when it is too long, and spills while the disk is full."""

    def __init__(self, path: Path, *, simulated: bool | None = None, spill_dir: Path | None = None) -> None:
        self._path = path
        self._simulated = simulated
        self._spill_dir = spill_dir
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > ROTATE_BYTES:
                path.replace(path.with_name(path.name + OLD_SUFFIX))
            self._descriptor = self._open()
        except OSError as err:
            raise EnvironmentLacksError(f"{path}: {err.strerror}; expected a writable journal") from err
        self._end_torn_line()
        goes_on = spill_dir is not None and _beside(path, spill_dir, SPILL_SUFFIX).exists()
        self._trouble = trouble_of(path) if goes_on else ""
        self.lost = 0

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def _end_torn_line(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            with contextlib.suppress(OSError):  # on a full disk the next record is spilled anyway
                os.write(self._descriptor, b"\n")

    def append(self, record: Record) -> None:
        """Append one record; on a full disk to the spill, and count it in `lost` where that fails too."""
        line = json_bytes(to_json(record, simulated=self._simulated)) + b"\n"
        if self._trouble and self._spill_dir is not None and not has_room(self._path):
            reason = self._trouble
        else:
            reason = self._write(line)
        if reason:
            self._do_without(line, reason)
        elif self._trouble:
            logger.warning("journal is writable again: %s", self._path)
        self._trouble = reason

    def _write(self, line: bytes) -> str:
        """Write one line to the disk; return the reason where that fails."""
        try:
            size = self._rotate(os.fstat(self._descriptor).st_size)
            if os.write(self._descriptor, line) < len(line):
                # Half a record on a full disk: remove it before the next one.
                os.ftruncate(self._descriptor, size)
                return f"{self._path}: {os.strerror(errno.ENOSPC)}"
        except OSError as err:
            return f"{self._path}: {err.strerror or err}"
        return ""

    def _rotate(self, size: int) -> int:
        """Start a new file where this one is too long; return the size of the present one."""
        if size <= ROTATE_BYTES:
            return size
        old = self._path.with_name(self._path.name + OLD_SUFFIX)
        try:
            self._path.replace(old)
        except OSError:
            return size
        try:
            fresh = self._open()
        except OSError:
            old.replace(self._path)  # the open file keeps its name
            return size
        os.close(self._descriptor)
        self._descriptor = fresh
        return 0

    def _do_without(self, line: bytes, reason: str) -> None:
        """Append a line to the spill, or count it as lost."""
        spilled = self._spill_dir is not None and _spilled(line, _beside(self._path, self._spill_dir, SPILL_SUFFIX))
        if not self._trouble or (self.lost == 0 and not spilled):
            end = "they are kept in memory" if spilled else "they are lost"
            logger.error("records cannot be written: %s; %s", reason, end)
        if spilled:
            return
        self.lost += 1
        if self._spill_dir is not None:
            with (
                contextlib.suppress(OSError),
                _beside(self._path, self._spill_dir, LOST_SUFFIX).open("ab", buffering=0) as file,
            ):
                file.write(b".")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _spilled(line: bytes, path: Path) -> bool:
    """Append a line to a spill; False where it is full or cannot be written."""
    try:
        with path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size + len(line) > SPILL_BYTES:
                return False
            if file.write(line) == len(line):
                return True
            file.truncate(size)
    except OSError:
        pass
    return False


class RecordJournalReader:
    """Follows one journal from a position, which can be saved between runs; with `spill_dir` its spill too."""

    def __init__(self, path: Path, position: Position | None = None, *, spill_dir: Path | None = None) -> None:
        self._path = path
        position = position or (0, 0)
        self._inode, self._offset = position[:2]
        self._spill: RecordJournalReader | None = None
        if spill_dir is not None:
            self._spill = RecordJournalReader(_beside(path, spill_dir, SPILL_SUFFIX), position[2:])
        self.unreadable = 0

    @property
    def position(self) -> Position:
        """Position of the next read."""
        return self._inode, self._offset, *(() if self._spill is None else self._spill.position)

    def skip_to_end(self) -> None:
        """Skip the existing records."""
        if self._spill is not None:
            self._spill.skip_to_end()
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        self._inode, self._offset = status.st_ino, status.st_size

    def read(self) -> Iterator[Record]:
        """Yield the whole records since the last read; a line that is no record is counted as unreadable."""
        if self._spill is None:
            yield from self._read_journal()
            return
        records = list(self._read_journal())  # before the spill: records that arrive here meanwhile are later
        spilled = list(self._spill.read())
        yield from sorted((*records, *spilled), key=lambda record: record.time_ns) if spilled else records

    def _has_more(self) -> bool:
        """Return True if the file grew or was replaced since the last read; readers check many times a second."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return False
        return (status.st_ino, status.st_size) != (self._inode, self._offset)

    def _read_journal(self) -> Iterator[Record]:
        if not self._has_more():
            return
        try:
            # Opened before its inode is read: the writer may rotate in between.
            current = self._path.open("rb")
        except FileNotFoundError:
            return
        with current:
            inode = os.fstat(current.fileno()).st_ino
            if self._inode not in (0, inode):
                yield from self._rest_of_old()
                self._offset = 0
            self._inode = inode
            yield from self._read_file(current)

    def _rest_of_old(self) -> Iterator[Record]:
        try:
            old = self._path.with_name(self._path.name + OLD_SUFFIX).open("rb")
        except FileNotFoundError:
            return
        with old:
            if os.fstat(old.fileno()).st_ino == self._inode:
                yield from self._read_file(old)

    def _read_file(self, file: BinaryIO) -> Iterator[Record]:
        file.seek(self._offset)
        for line in file:
            if not line.endswith(b"\n"):
                return  # the writer has not finished it
            self._offset += len(line)
            if line == b"\n":
                continue
            try:
                yield from_json(json.loads(line))
            except ValueError:
                self.unreadable += 1
