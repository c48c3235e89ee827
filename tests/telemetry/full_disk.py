"""A disk that is full, as the kernel tells it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def full_disk() -> Iterator[None]:
    """Let the disk take nothing, though a folder in memory, which is written otherwise, takes all."""

    def refuse(descriptor: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    found = os.statvfs("/")
    numbers = [*tuple(found)[:4], 0, *tuple(found)[5:]]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("telemetry.record_journal.os.write", refuse)
        patched.setattr("telemetry.record_journal.os.statvfs", lambda _: os.statvfs_result(numbers))
        yield
