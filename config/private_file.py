"""Reads a file that grants privileges; refuses it if another user could have written it."""

import os
import stat
from pathlib import Path

from telemetry.documents import decoded
from telemetry.errors import ConfigError, Problem


def read_private(path: Path, *, sample: str) -> str:
    """Return the text of a file that only this process's own user, or root, can change or replace.

    The file is owned by this user, its folders by this user or root, and no other user may write any of them. A folder
    further up may be open to others if it is sticky, as /tmp is. If there is no file, the error names `sample`.

    Raises
    ------
    ConfigError
        It cannot be read, or another user could have written it.
    """
    try:
        real = path.resolve(strict=True)
        with real.open("rb") as file:
            _check_file(path, os.fstat(file.fileno()))
            _check_folders(path, "(folder)", real.parent)
            return decoded(file.read(), where=str(path))
    except FileNotFoundError as err:
        raise _refused(
            path, "(file)", "No such file or directory", f"a readable YAML file; copy {sample} to begin"
        ) from err
    except OSError as err:
        raise _refused(path, "(file)", err.strerror or "cannot be read", "a readable YAML file") from err


def check_private_folder(path: Path, key: str, folder: Path) -> None:
    """Refuse a folder, named by a key of the file at `path`, whose content another user could replace.

    If it does not exist yet, the folders above it count.

    Raises
    ------
    ConfigError
        Another user could write there.
    """
    try:
        real = folder.resolve()
        _check_folders(path, key, next(one for one in (real, *real.parents) if one.exists()))
    except OSError as err:
        raise _refused(path, key, err.strerror or str(err), "a folder that can be looked into") from err


def _check_folders(path: Path, key: str, nearest: Path) -> None:
    for folder in (nearest, *nearest.parents):
        _check_folder(path, key, folder, nearest=folder == nearest)


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _refused(path, "(file)", "no regular file", "a YAML file")
    if status.st_uid != os.geteuid():
        raise _refused(
            path, "(owner)", f"belongs to uid {status.st_uid}", f"the user who runs this, uid {os.geteuid()}"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(path, "(mode)", f"mode {stat.S_IMODE(status.st_mode):04o}", "writable by its owner alone")


def _check_folder(path: Path, key: str, folder: Path, *, nearest: bool) -> None:
    status = folder.stat()
    if status.st_uid not in (0, os.geteuid()):
        raise _refused(path, key, f"{folder} belongs to uid {status.st_uid}", "a folder of root or of this user")
    open_to_others = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    kept = bool(status.st_mode & stat.S_ISVTX) and not nearest
    if open_to_others and not kept:
        found = f"{folder} has mode {stat.S_IMODE(status.st_mode):04o}"
        raise _refused(path, key, found, "a folder that its owner alone may write")


def _refused(path: Path, key: str, found: str, expected: str) -> ConfigError:
    return ConfigError([Problem(where=str(path), line=None, key=key, found=found, expected=expected)])
