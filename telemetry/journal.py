"""Append-only journals of records: one writing process a file, any number of readers, nothing lost by a kill.

A record is one JSON line, handed to the kernel in one write before the caller goes on: it survives the death of the
writer. Readers follow with a position of their own and see only whole lines.
"""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from telemetry.errors import EnvironmentLacksError
from telemetry.records import Record, from_json, to_json

logger = logging.getLogger(__name__)

# A journal of 16 MiB holds about 20,000 records; one generation behind it is kept for slow readers.
ROTATE_BYTES = 16 << 20
OLD_SUFFIX = ".old"


class JournalWriter:
    """Appends records to one file; rotates it when it has grown too long."""

    def __init__(self, path: Path, *, simulated: bool | None = None) -> None:
        self._path = path
        self._simulated = simulated
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > ROTATE_BYTES:
                path.replace(path.with_name(path.name + OLD_SUFFIX))
            self._descriptor = self._open()
        except OSError as err:
            raise EnvironmentLacksError(f"{path}: {err.strerror}; expected a journal that can be written") from err
        self._end_torn_line()
        self.lost = 0

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def _end_torn_line(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def append(self, record: Record) -> None:
        """Write one record; what cannot be written is counted in `lost` and logged."""
        line = (
            json.dumps(to_json(record, simulated=self._simulated), separators=(",", ":"), allow_nan=False).encode()
            + b"\n"
        )
        try:
            size = self._rotate(os.fstat(self._descriptor).st_size)
            if os.write(self._descriptor, line) < len(line):
                # Half a record on a full disk: it must not stand before the next one.
                os.ftruncate(self._descriptor, size)
                self._lose("no space left for a whole record")
        except OSError as err:
            self._lose(err.strerror or str(err))

    def _rotate(self, size: int) -> int:
        """Begin a new file where this one has grown too long; gives the size of the one that is written now."""
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
            old.replace(self._path)  # what is open goes on under its own name
            return size
        os.close(self._descriptor)
        self._descriptor = fresh
        return 0

    def _lose(self, reason: str) -> None:
        if self.lost == 0:
            logger.error("journal cannot be written", extra={"path": str(self._path), "reason": reason})
        self.lost += 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class JournalReader:
    """Follows one journal from a position; `position` is ``(inode, offset)`` and can be kept between runs."""

    def __init__(self, path: Path, position: tuple[int, int] | None = None) -> None:
        self._path = path
        self._inode, self._offset = position or (0, 0)
        self.unreadable = 0

    @property
    def position(self) -> tuple[int, int]:
        """Where the next read begins."""
        return self._inode, self._offset

    def skip_to_end(self) -> None:
        """Read only what is appended from now on."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        self._inode, self._offset = status.st_ino, status.st_size

    def read(self) -> Iterator[Record]:
        """Give the whole records that were appended since the last read; a line that is no record is counted."""
        try:
            # Opened before it is asked which one it is: the writer may rotate in between.
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
                return  # the writer is in the middle of it
            self._offset += len(line)
            if line == b"\n":
                continue
            try:
                yield from_json(json.loads(line))
            except ValueError:
                self.unreadable += 1
