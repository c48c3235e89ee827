"""Lock that makes one process of a machine the only one that sets the knobs of its GPUs."""

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from telemetry.errors import EnvironmentLacksError

NAME = "railwatch-clocks"
LOCK_PATH = Path("/run/railwatch/writer.lock")


class WriterLock:
    """Exclusive right to set GPU knobs on this machine, held until it is closed or the process ends.

    An abstract unix socket (unix(7)): a kill leaves no file behind, and no folder has to be writable. It covers one
    network namespace, so a file is locked as well if it can be created: that also excludes a service whose network
    systemd made private. Two containers with file systems of their own do not see each other.
    EnvironmentLacksError where another process has it.
    """

    def __init__(self, name: str = NAME, path: Path = LOCK_PATH) -> None:
        self._file: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0{name}")
        except OSError as err:
            self._socket.close()
            raise _taken(f"@{name}") from err
        try:
            path.parent.mkdir(mode=0o755, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            self.close()
            raise _taken(str(path)) from err
        except OSError:
            pass  # not root: the socket alone is the lock

    def close(self) -> None:
        """Release the lock."""
        self._socket.close()
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


def _taken(what: str) -> EnvironmentLacksError:
    return EnvironmentLacksError(
        f"{what}: another process on this machine sets GPU clocks; stop it first, expected only one"
    )
