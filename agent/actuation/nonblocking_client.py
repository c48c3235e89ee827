"""Lines made beforehand that go to the actuator the moment they are wanted, on a connection of their own.

The ordinary client waits for each answer and holds its connection meanwhile. Here a line is handed to the kernel and
nothing is waited for; answers are fetched later, by whoever keeps the connection.
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
# A unix socket takes a connection at once or its queue is full. Heuristic: rare, and never on the way of a cap.
_CONNECT_S = 0.2

# What became of a line: its name, and the actions; None where the actuator refused it or failed.
Reply = tuple[str, tuple[Action, ...] | None]


class NonBlockingClient:
    """A connection on which `send` never waits. One thread keeps it (`connect`, `answers`), any thread may send."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._asked: deque[str] = deque()
        self._received = bytearray()

    def connect(self) -> bool:
        """Connect where there is no connection; True where a new one was made, so that nothing is under way on it."""
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
        """Hand a line to the kernel; False where it did not go out, and then nothing of it counts."""
        with self._lock:  # held for microseconds: nobody waits under it
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

    def answers(self) -> tuple[Reply, ...]:
        """Return what has been answered since the last call, in the order in which it was asked; waits for nothing."""
        found: list[tuple[str, bytes]] = []
        with self._lock:
            self._receive()
            while self._asked and (end := self._received.find(b"\n")) >= 0:
                found.append((self._asked.popleft(), bytes(self._received[:end])))
                del self._received[: end + 1]
        return tuple((name, _actions(line)) for name, line in found)  # reading them takes longer than a sender may wait

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
    """Return the line that asks for a cap; ValueError where it may not be asked for."""
    return request_line(make_request(do="apply", **asdict(request)))


def release_line(incident_id: str, *, reason: str) -> bytes:
    """Return the line that gives up every claim of an incident."""
    return request_line(make_request(do="release_incident", incident_id=incident_id, reason=reason))


def list_line() -> bytes:
    """Return the line that asks what is in force."""
    return request_line(make_request(do="list"))


def _actions(line: bytes) -> tuple[Action, ...] | None:
    try:
        answer = read_answer(line)
    except TransientError:
        return None
    return None if isinstance(answer, str) else answer
