"""Reader of a small /proc file through a descriptor that stays open: no path look-up at every read."""

import os
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 8192
# Positions behind the bracket that closes the name: ppid is field 4, utime and stime are 14 and 15, starttime is 22.
_PARENT, _USER, _SYSTEM, _START = 1, 11, 12, 19


class TextFile:
    """A file whose text is read repeatedly from its beginning.

    One that vanishes reads as None until it is there again. One that was replaced by another under its name, as
    programs do that write a file whole, is opened again at once.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._fd: int | None = None

    def read(self) -> bytes | None:
        """Return the first 8 KiB, None where the file cannot be read now."""
        if self._fd is not None:
            text = self._text(self._fd)
            if text is not None:
                return text
            self.close()
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        return self._text(self._fd)

    def close(self) -> None:
        """Close the descriptor; closing twice is harmless, reading opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _text(self, fd: int) -> bytes | None:
        """Read; None where the file is gone. Reads fail with ESRCH once a process has ended."""
        try:
            text = os.pread(fd, _MAX_BYTES, 0)
            return text if os.fstat(fd).st_nlink else None
        except OSError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """Parent, processor time and start of a process; times in ticks of USER_HZ.

    `start_ticks` distinguishes a process from a later one with the same number.
    """

    parent: int
    user_ticks: int
    system_ticks: int
    start_ticks: int


def parse_process_stat(text: bytes) -> ProcessStat | None:
    """Parse the text of ``/proc/PID/stat``; None where a field is missing or no number.

    The process name, in brackets, may hold spaces and brackets itself.
    """
    fields = text.rpartition(b")")[2].split()
    try:
        return ProcessStat(
            parent=int(fields[_PARENT]),
            user_ticks=int(fields[_USER]),
            system_ticks=int(fields[_SYSTEM]),
            start_ticks=int(fields[_START]),
        )
    except (IndexError, ValueError):
        return None
