"""Reader of a small file of /proc or sysfs through a descriptor that stays open: no path look-up at every read."""

import os
from pathlib import Path

_MAX_BYTES = 8192


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
