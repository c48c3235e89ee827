"""A small file of /proc or sysfs through a descriptor that stays open: no path look-up at every read."""

import os
from pathlib import Path

_MAX_BYTES = 8192


class TextFile:
    """A file whose text is read again and again from its beginning.

    One that vanishes reads as None until it is there again. One that was replaced by another under its name, as
    programs do that write a file whole, is read anew at once.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._fd: int | None = None

    def read(self) -> bytes | None:
        """Return the first 8 KiB, None where there is nothing to read now."""
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
        """Let the descriptor go; closing twice is harmless, reading opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _text(self, fd: int) -> bytes | None:
        """Read; None where the file is gone. The kernel refuses to read of a process that has ended (ESRCH)."""
        try:
            text = os.pread(fd, _MAX_BYTES, 0)
            return text if os.fstat(fd).st_nlink else None
        except OSError:
            return None
