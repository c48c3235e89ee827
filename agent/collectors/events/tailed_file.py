"""Reader of lines appended to a log file, through rotation and truncation."""

import os
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 64 << 10
_MAX_LINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TailedLine:
    """A whole line; inode and offset identify it for as long as the file exists."""

    inode: int
    offset_bytes: int
    text: str


class TailedFile:
    """Follows a log file from the end that it had when it was first opened.

    A file that was renamed away is read to its end before the one in its place is read from its beginning; one that
    was truncated is read from its beginning. The file may be created later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._inode = 0
        self._offset_bytes = 0
        self._partial = b""
        self._begun = False

    def open(self) -> None:
        """Seek to the end the first time, continue from there after `close`; the file may be missing."""
        if self._fd is None:
            self._attach()
        self._begun = True

    def close(self) -> None:
        """Close the file and keep the position; closing twice is harmless."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def lines(self) -> tuple[TailedLine, ...]:
        """Return the lines appended since the last call, at most 64 KiB."""
        if self._fd is None:
            self._attach()
        if self._fd is None:
            return ()
        size_bytes = os.fstat(self._fd).st_size
        if size_bytes < self._offset_bytes:
            self._offset_bytes, self._partial = 0, b""
        chunk = os.pread(self._fd, _READ_BYTES, self._offset_bytes)
        if not chunk:
            self._follow()
            return ()
        first = self._offset_bytes - len(self._partial)
        self._offset_bytes += len(chunk)
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        if len(self._partial) > _MAX_LINE_BYTES:
            whole.append(self._partial)
            self._partial = b""
        found = []
        for line in whole:
            text = line.decode("utf-8", errors="replace").rstrip("\r")
            found.append(TailedLine(inode=self._inode, offset_bytes=first, text=text))
            first += len(line) + 1
        return tuple(found)

    def _attach(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        status = os.fstat(fd)
        if status.st_ino != self._inode:
            self._offset_bytes = 0 if self._begun else status.st_size
            self._partial = b""
        self._fd, self._inode = fd, status.st_ino

    def _follow(self) -> None:
        """Switch to the file that replaced this one, if there is one; this one has been read to its end."""
        try:
            replaced = os.stat(self._path).st_ino != self._inode  # noqa: PTH116 -- called often; no Path object wanted
        except FileNotFoundError:
            return
        if replaced:
            self.close()
            self._attach()
