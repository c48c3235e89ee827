"""Client of NUT's upsd: one connection, one request at a time (RFC 9271).

No library is used: only two list commands are needed, and the libraries bring an event loop of their own or have had
no release for years.
"""

import shlex
import socket
from collections import deque
from collections.abc import Mapping

from agent.collectors.meters.settings import UpsdSettings
from telemetry.errors import NotPermittedError, TransientError

# heuristic: the response of a UPS with 40 outlets has 20 KiB; a longer one is not from upsd.
_MAX_BYTES = 1 << 20
# RFC 9271, 4.3: errors of one UPS, while its server works.
_UPS_ERRORS = ("DATA-STALE", "DRIVER-NOT-CONNECTED", "UNKNOWN-UPS")


class SilentUpsError(TransientError):
    """Error of one UPS without data; its server responds."""


class NutClient:
    """Client of one upsd. After an error the next request opens a new connection."""

    def __init__(self, settings: UpsdSettings) -> None:
        self._settings = settings
        self._where = f"upsd at {settings.host}:{settings.port}"
        self._socket: socket.socket | None = None
        self._lines: deque[bytes] = deque()
        self._rest = b""

    def list_upss(self) -> tuple[str, ...]:
        """Return the names of the server's UPSs; raises as `variables`."""
        return tuple(fields[1] for fields in self._list("UPS") if len(fields) >= 2)

    def variables(self, ups: str) -> Mapping[str, str]:
        """Return every variable of a UPS as text.

        Raises
        ------
        TransientError
            No connection, no response in time, or a malformed response.
        SilentUpsError
            The UPS's driver did not refresh its data, or the server no longer has this UPS.
        NotPermittedError
            The server denies access.
        """
        return {fields[2]: fields[3] for fields in self._list(f"VAR {ups}") if len(fields) >= 4}

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._lines.clear()
        self._rest = b""

    def _list(self, what: str) -> list[list[str]]:
        try:
            return self._request(what)
        except (OSError, ValueError) as err:
            self.close()
            raise TransientError(f"{self._where}: {err}") from err

    def _request(self, what: str) -> list[list[str]]:
        if self._socket is None:
            timeout_s = self._settings.timeout_s
            self._socket = socket.create_connection((self._settings.host, self._settings.port), timeout_s)
        self._socket.sendall(f"LIST {what}\n".encode())
        first = self._line(self._socket)
        if first.startswith("ERR "):
            raise self._error_for(first.removeprefix("ERR ").partition(" ")[0])
        if first != f"BEGIN LIST {what}":
            raise ValueError(f"unexpected response {first[:60]!r}, expected a list")
        rows = []
        taken_bytes = 0
        while (line := self._line(self._socket)) != f"END LIST {what}":
            taken_bytes += len(line)
            if taken_bytes > _MAX_BYTES:
                raise ValueError(f"list longer than {_MAX_BYTES >> 20} MiB")
            rows.append(shlex.split(line))
        return rows

    def _line(self, connection: socket.socket) -> str:
        while not self._lines:
            more = connection.recv(65536)
            if not more:
                raise ValueError("connection closed by the server")
            *lines, self._rest = (self._rest + more).split(b"\n")
            self._lines.extend(lines)
            if len(self._rest) > _MAX_BYTES:
                raise ValueError(f"line longer than {_MAX_BYTES >> 20} MiB")
        return self._lines.popleft().decode("utf-8", "replace").rstrip("\r")

    def _error_for(self, code: str) -> TransientError | NotPermittedError:
        message = f"{self._where}: {code}"
        if code == "ACCESS-DENIED":
            return NotPermittedError(message)
        return SilentUpsError(message) if code in _UPS_ERRORS else TransientError(message)
