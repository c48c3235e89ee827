"""SQLite files of the stores: write-ahead log, checked layout, errors by consequence."""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from telemetry.errors import EnvironmentLacksError, TransientError

# A reader that locks the file for longer is a fault of its own.
_BUSY_S = 5.0


def open_database(path: Path, *, schema: str, version: int) -> sqlite3.Connection:
    """Return a connection for writing; create the file if missing.

    Raises
    ------
    EnvironmentLacksError
        The file cannot be created, written or read, or another version of railwatch made it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as err:
        raise EnvironmentLacksError(f"{path}: cannot be opened for writing: {err}") from err
    try:
        _prepare(connection, path, schema=schema, version=version)
    except sqlite3.Error as err:
        connection.close()
        raise EnvironmentLacksError(f"{path}: cannot be used as a store: {err}") from err
    except EnvironmentLacksError:
        connection.close()
        raise
    return connection


def open_read_only(path: Path, *, version: int) -> sqlite3.Connection:
    """Return a read-only connection to a file that another process writes.

    Raises
    ------
    EnvironmentLacksError
        There is no such file, it cannot be read, or another version of railwatch made it.
    """
    if not path.is_file():
        raise EnvironmentLacksError(f"{path}: no such file; expected a data folder that railwatch has run with")
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        found = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as err:
        raise EnvironmentLacksError(f"{path}: cannot be read: {err}") from err
    if found != version:
        connection.close()
        raise _other_layout(path, found=found, version=version)
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, what: str) -> Iterator[None]:
    """Commit the block or nothing of it; TransientError if the file cannot be written now, as on a full disk."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except sqlite3.Error as err:
        _roll_back(connection)
        full = getattr(err, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        raise TransientError(f"{what}: {os.strerror(errno.ENOSPC) if full else err}") from err
    except BaseException:
        _roll_back(connection)
        raise


def size_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of data, without free pages."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return int((pages - free) * connection.execute("PRAGMA page_size").fetchone()[0])


def _prepare(connection: sqlite3.Connection, path: Path, *, schema: str, version: int) -> None:
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    # NORMAL: safe against a killed process; a power cut may cost the last commits but never the file.
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA journal_size_limit=67108864")
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found not in (0, version):
        raise _other_layout(path, found=found, version=version)
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={version:d}")
    connection.execute("COMMIT")


def _other_layout(path: Path, *, found: int, version: int) -> EnvironmentLacksError:
    return EnvironmentLacksError(f"{path}: layout version {found}; this railwatch reads version {version}")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        # On a full disk SQLite has rolled back already.
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
