"""Clients of the actuator process, for processes without access to the hardware: one waits, one never does."""

import contextlib
import socket
import threading
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.actuation.claims import CapRequest
from agent.actuation.knobs import KnobCheck
from agent.actuation.protocol import make_request, read_answer, read_checks, read_recent, read_status, request_line
from agent.actuation.report import RecentBatch
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.gpu import KnobKind
from telemetry.records import Action

RECEIVE_BYTES = 64 << 10
# heuristic: a unix socket accepts a connection at once unless its queue is full; never on the path of a cap.
_CONNECT_S = 0.2
# Name of a request and its actions; None if the actuator refused it or failed.
Reply = tuple[str, tuple[Action, ...] | None]


class ActuatorClient:
    """Actuator at the other end of a socket, with the same methods; any thread may use it.

    Connects at first use and again after a failure. A request that timed out may have been carried out: every request
    can be repeated. Every method raises TransientError if the actuator is away or does not answer within `timeout_s`,
    and ActionRefusedError if the request is invalid; nothing was changed then.
    """

    def __init__(self, socket_path: Path, *, timeout_s: float = 1.0) -> None:
        self._socket_path = socket_path
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Set the knobs of a request."""
        return self._request(do="apply", **asdict(request))

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        """Renew the leases of an incident."""
        return self._request(do="renew", incident_id=incident_id, lease_s=lease_s)

    def release(
        self, incident_id: str, *, entity_id: str, reason: str, kind: KnobKind | None = None
    ) -> tuple[Action, ...]:
        """Release an incident's claims on one GPU, or on one of its knobs if a kind is given."""
        return self._request(do="release", incident_id=incident_id, entity_id=entity_id, reason=reason, kind=kind)

    def release_incident(self, incident_id: str, *, reason: str, bar: bool = False) -> tuple[Action, ...]:
        """Release every claim of an incident; `bar` blocks it from those knobs."""
        return self._request(do="release_incident", incident_id=incident_id, reason=reason, bar=bar)

    def release_all(self, *, reason: str) -> tuple[Action, ...]:
        """Release every claim."""
        return self._request(do="release_all", reason=reason)

    def in_force(self) -> tuple[Action, ...]:
        """Return the newest action of every claim that is in force."""
        return self._request(do="list")

    def actions_since(self, after: int | None) -> RecentBatch:
        """Return the actions since a number; None requests the number alone."""
        return read_recent(self._answer(do="follow", after=after))

    def verify(self) -> tuple[KnobCheck, ...]:
        """Compare every held knob with the journal."""
        return read_checks(self._answer(do="verify"))

    def status(self) -> dict[str, Any]:
        """Return what the actuator holds and how many requests it refused."""
        return read_status(self._answer(do="status"))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._disconnect()

    def _request(self, **fields: object) -> tuple[Action, ...]:
        answer = read_answer(self._answer(**fields))
        if isinstance(answer, str):
            raise ActionRefusedError(answer)
        return answer

    def _answer(self, **fields: object) -> bytes:
        try:
            request = make_request(**fields)
        except ValueError as err:
            raise ActionRefusedError(str(err)) from err
        with self._lock:
            try:
                return self._exchange(request_line(request))
            except OSError as err:
                self._disconnect()
                reason = "no reply in time" if isinstance(err, TimeoutError) else str(err)
                raise TransientError(f"actuator at {self._socket_path}: {reason}") from err
            except BaseException:  # interrupted: the reply still comes, and the next request would read it as its own
                self._disconnect()
                raise

    def _exchange(self, line: bytes) -> bytes:
        connection = self._connected()
        try:
            connection.sendall(line)
        except (BrokenPipeError, ConnectionResetError):  # it was restarted: it read nothing of this
            self._disconnect()
            connection = self._connected()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a reason may have come
                connection.sendall(line)
        received = bytearray()
        while not received.endswith(b"\n"):
            part = connection.recv(RECEIVE_BYTES)
            if not part:
                raise ConnectionResetError("connection closed by the actuator")
            received += part
        return bytes(received)

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection = _connect(self._socket_path, self._timeout_s)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(path: Path, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


class NonBlockingClient:
    """Connection on which `send` writes a line to the socket and never waits; replies are read later.

    One thread owns it (`connect`, `replies`), any thread may send.
    """

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
        try:
            connection = _connect(self._socket_path, _CONNECT_S)
        except OSError:
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
                part = self._connection.recv(RECEIVE_BYTES)
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
