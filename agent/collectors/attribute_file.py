"""One number of sysfs through a descriptor that stays open: 0.4 us a read instead of 6 us for open, read, close."""

import os
from pathlib import Path

_MAX_BYTES = 64
# A device that comes back gets a new inode, so its file has to be opened again; not at every tick.
_REOPEN_AFTER_READS = 20


class AttributeFile:
    """A sysfs attribute that holds one whole number.

    A file that vanishes, is empty or holds something else reads as NaN; it is looked for again now and then.
    """

    def __init__(self, path: Path, *, factor: float = 1.0) -> None:
        self.path = path
        self._factor = factor
        self._fd: int | None = None
        self._reads_until_reopen = 0

    def read(self) -> float:
        """Give the number times the factor, NaN where there is none now."""
        fd = self._fd
        if fd is None:
            fd = self._reopen()
            if fd is None:
                return float("nan")
        try:
            text = os.pread(fd, _MAX_BYTES, 0)
            # A plain file that was unlinked would go on to answer for ever; in sysfs the read itself fails.
            gone = os.fstat(fd).st_nlink == 0
        except OSError:
            gone = True
        if gone:
            self._forget()
            return float("nan")
        try:
            return int(text.split(b"\n", 1)[0].rstrip(b"\0 ")) * self._factor
        except ValueError:
            return float("nan")

    def close(self) -> None:
        """Let the descriptor go; closing twice is harmless, reading opens it again."""
        self._reads_until_reopen = 0
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _reopen(self) -> int | None:
        if self._reads_until_reopen > 0:
            self._reads_until_reopen -= 1
            return None
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._reads_until_reopen = _REOPEN_AFTER_READS
        return self._fd

    def _forget(self) -> None:
        self.close()
        self._reads_until_reopen = _REOPEN_AFTER_READS
