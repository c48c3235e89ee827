"""Full disk, as the kernel reports it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def full_disk() -> Iterator[None]:
    """Simulate a full disk for journals; a folder in memory, which is written by other calls, stays writable."""

    def refuse(descriptor: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    found = os.statvfs("/")
    numbers = [*tuple(found)[:4], 0, *tuple(found)[5:]]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("telemetry.record_journal.os.write", refuse)
        patched.setattr("telemetry.record_journal.os.statvfs", lambda _: os.statvfs_result(numbers))
        yield
