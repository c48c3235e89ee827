"""Files that are whole or as they were, whenever the process is killed or the power goes."""

import errno
import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)


def replace_file(path: Path, body: bytes) -> None:
    """Put a whole file in place of another; OSError where the disk does not take it, and the old one stays."""
    os.close(open_replaced(path, body, mode=0o666))  # as `open` makes files


def open_replaced(path: Path, body: bytes, *, mode: int = 0o640) -> int:
    """Do what `replace_file` does, and give the new file's descriptor, which appends."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, mode)
    try:
        write_whole(descriptor, body)
        os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        os.close(descriptor)
        raise
    try:
        sync_folder(path.parent)
    except OSError as err:  # it stands there all the same: who took it for the old one would write where nobody reads
        logger.warning("%s: after a power cut it may be as it was before: %s", path, err.strerror)
    return descriptor


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it in one go; OSError where less was taken, which is a full disk."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk: the name of a new file is data of its folder, see fsync(2)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
