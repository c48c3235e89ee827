"""Files that are whole or not there, whenever the process is killed."""

import os
from pathlib import Path


def replace_file(path: Path, body: bytes) -> None:
    """Put a whole file in place of another; OSError where the disk does not take it, and the old one stays."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
