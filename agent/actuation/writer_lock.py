"""Only one process of a machine moves the clocks of its GPUs."""

import socket

from telemetry.errors import EnvironmentLacksError

NAME = "railwatch-clocks"


class WriterLock:
    """The right to write clocks on this machine, held until it is closed or the process ends.

    An abstract unix socket (unix(7)): no file that a kill leaves behind, and no folder that another user may lack. It
    covers one network namespace; two containers with networks of their own do not see each other.

    Raises
    ------
    EnvironmentLacksError
        Another process has it.
    """

    def __init__(self, name: str = NAME) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0{name}")
        except OSError as err:
            self._socket.close()
            raise EnvironmentLacksError(
                f"@{name}: another process on this machine writes GPU clocks; expected it to be the only one"
            ) from err

    def close(self) -> None:
        """Give it back."""
        self._socket.close()
