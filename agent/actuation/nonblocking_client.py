"""Client that sends prepared requests to the actuator without waiting, on a connection of its own.

The ordinary client waits for each reply. This one writes a line to the socket and returns; replies are read later, by
the thread that owns the connection.
"""

import socket
import threading
from collections import deque
from dataclasses import asdict
from pathlib import Path

from agent.actuation.protocol import make_request, read_answer, request_line
from agent.actuation.request import CapRequest
from telemetry.errors import TransientError
from telemetry.records import Action

_RECEIVE_BYTES = 64 << 10
# heuristic: a unix socket accepts a connection at once unless its queue is full; never on the path of a cap.
_CONNECT_S = 0.2

# Name of a request and its actions; None if the actuator refused it or failed.
Reply = tuple[str, tuple[Action, ...] | None]


class NonBlockingClient:
    """Connection on which `send` never waits. One thread owns it (`connect`, `replies`), any thread may send."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._asked: deque[str] = deque()
        self._received = bytearray()

    def connect(self) -> bool:
        """Connect if there is no connection; return True for a new one, on which no request is under way."""
        if self._connection is not None:
            return False
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_CONNECT_S)
        try:
            connection.connect(str(self._socket_path))
        except OSError:
            connection.close()
            return False
        connection.setblocking(False)  # noqa: FBT003 -- the library's own flag
        with self._lock:
            self._asked.clear()
            self._received.clear()
            self._connection = connection
        return True

    def send(self, name: str, line: bytes) -> bool:
        """Write a line to the socket; return False if it was not sent as a whole, and then it does not count."""
        with self._lock:  # held for microseconds, no call blocks under it
            connection = self._connection
            if connection is None:
                return False
            try:
                sent = connection.send(line)
            except OSError:
                sent = 0
            if sent != len(line):
                self._hang_up()
                return False
            self._asked.append(name)
            return True

    def replies(self) -> tuple[Reply, ...]:
        """Return the replies since the last call, in the order of the requests, without waiting."""
        found: list[tuple[str, bytes]] = []
        with self._lock:
            self._receive()
            while self._asked and (end := self._received.find(b"\n")) >= 0:
                found.append((self._asked.popleft(), bytes(self._received[:end])))
                del self._received[: end + 1]
        return tuple((name, _actions(line)) for name, line in found)  # parsing takes longer than a sender may wait

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        with self._lock:
            self._hang_up()

    def _receive(self) -> None:
        while self._connection is not None:
            try:
                part = self._connection.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                self._hang_up()
                return
            self._received += part

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def apply_line(request: CapRequest) -> bytes:
    """Return the line that requests a cap; ValueError if the request is invalid."""
    return request_line(make_request(do="apply", **asdict(request)))


def release_line(incident_id: str, *, reason: str) -> bytes:
    """Return the line that releases every claim of an incident."""
    return request_line(make_request(do="release_incident", incident_id=incident_id, reason=reason))


def list_line() -> bytes:
    """Return the line that requests the actions in force."""
    return request_line(make_request(do="list"))


def _actions(line: bytes) -> tuple[Action, ...] | None:
    try:
        answer = read_answer(line)
    except TransientError:
        return None
    return None if isinstance(answer, str) else answer
