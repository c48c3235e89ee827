"""Reader of one sysfs number through a descriptor that stays open: 0.4 us per read; open, read and close take 6 us."""

import errno
import logging
import os
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)

_MAX_BYTES = 64
# heuristic: a device that comes back has a new inode, so its file is opened again; not at every tick.
REOPEN_AFTER_READS = 20
# Errors of an open descriptor whose device is gone (Linux, fs/kernfs/file.c: ENODEV for a removed node). Other errors
# are temporary (EIO of a bus, ENODATA of a chip without a value), and the descriptor stays valid.
_GONE = frozenset({errno.ENODEV, errno.EBADF, errno.ESTALE})


@cache
def _sysfs_device() -> int:
    """Return the device number of /sys, cached: a stat costs as much as a read."""
    try:
        return os.stat("/sys").st_dev  # noqa: PTH116 -- one number wanted
    except OSError:
        return -1


class AttributeFile:
    """A sysfs attribute that holds one whole number.

    A file that vanishes, is empty or holds something else reads as NaN; it is opened again every few reads.

    `refused` counts reads that returned something else than a number, `failed` those that the kernel refused, and
    `vanished` the times that the file vanished. The first of each kind is logged.
    """

    def __init__(self, path: Path, *, factor: float = 1.0, reopen_after_reads: int = REOPEN_AFTER_READS) -> None:
        self.path = path
        self.refused = 0
        self.failed = 0
        self.vanished = 0
        self._factor = factor
        self._reopen_after_reads = reopen_after_reads
        self._fd: int | None = None
        # The last good answer: a sensor is read more often than it updates, and the same text is the same number.
        self._text = b""
        self._value = float("nan")
        self._may_unlink = True
        self._reads_until_check = 0
        self._reads_until_reopen = 0

    def read(self) -> float:
        """Return the number times the factor, NaN where there is none now."""
        fd = self._fd
        if fd is None:
            fd = self._reopen()
            if fd is None:
                return float("nan")
        try:
            text = os.pread(fd, _MAX_BYTES, 0)
            gone = False
            if self._may_unlink:
                self._reads_until_check -= 1
                gone = self._reads_until_check <= 0 and self._is_unlinked(fd)
        except OSError as err:
            if err.errno not in _GONE:
                return self._fail(err)
            gone = True
        if gone:
            return self._forget()
        if text == self._text:
            return self._value
        try:
            self._value = int(text) * self._factor
        except ValueError:
            self._text = b""
            return self._first_line(text)
        self._text = text
        return self._value

    def close(self) -> None:
        """Close the descriptor; closing twice is harmless, reading opens it again."""
        self._reads_until_reopen = 0
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _reopen(self) -> int | None:
        if self._reads_until_reopen > 0:
            self._reads_until_reopen -= 1
            return None
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._may_unlink = os.fstat(self._fd).st_dev != _sysfs_device()
        except OSError as err:
            self._reads_until_reopen = self._reopen_after_reads
            if err.errno not in (errno.ENOENT, *_GONE):  # present but denied: not counted by `vanished`
                self._fail(err)
        return self._fd

    def _is_unlinked(self, fd: int) -> bool:
        """Check if a plain file was removed, every few reads: reads of it still succeed, other than in sysfs."""
        self._reads_until_check = self._reopen_after_reads
        return os.fstat(fd).st_nlink == 0

    def _first_line(self, text: bytes) -> float:
        """Parse the first line: a writer may have written a shorter number over a longer one."""
        try:
            return int(text.split(b"\n", 1)[0].rstrip(b"\0 ")) * self._factor
        except ValueError:
            return self._refuse(text)

    def _forget(self) -> float:
        self.close()
        self._reads_until_reopen = self._reopen_after_reads
        self.vanished += 1
        if self.vanished == 1:
            logger.warning("%s is gone; reporting it as absent until it is back", self.path)
        return float("nan")

    def _refuse(self, text: bytes) -> float:
        self.refused += 1
        if self.refused == 1:
            logger.warning("%s holds %r, expected a whole number; reporting it as absent", self.path, text[:40])
        return float("nan")

    def _fail(self, error: OSError) -> float:
        self.failed += 1
        if self.failed == 1:
            logger.warning("cannot read %s: %s; reporting it as absent", self.path, error.strerror)
        return float("nan")
