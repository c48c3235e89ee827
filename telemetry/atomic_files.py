"""Atomic replacement of files: a reader sees the old file or the new one, also after a kill or a power cut."""

import errno
import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)


def replace_file(path: Path, body: bytes, *, mode: int = 0o666, synced: bool = True) -> None:
    """Replace a file; OSError where the disk does not take it, and the old file stays.

    `synced` forces the file to the disk before it gets its name; without it a power cut may leave an empty file, which
    is right for a status that the next run writes again.
    """
    os.close(open_replaced(path, body, mode=mode, synced=synced))


def open_replaced(path: Path, body: bytes, *, mode: int = 0o640, synced: bool = True) -> int:
    """Replace a file as `replace_file` does and return its descriptor, which appends."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # left by a kill, perhaps with another mode
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, mode)
    try:
        write_whole(descriptor, body)
        if synced:
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        os.close(descriptor)
        raise
    if synced:
        try:
            sync_folder(path.parent)
        except OSError as err:  # the new file is in place: a caller that kept to the old one would write to no reader
            logger.warning("cannot sync folder of %s, a power cut may restore the old file: %s", path, err.strerror)
    return descriptor


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all bytes in one call; OSError where fewer were taken, which means a full disk."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk: the name of a new file is data of its folder, see fsync(2)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
