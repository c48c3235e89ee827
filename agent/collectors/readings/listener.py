"""Sockets for lines of other programs: unix datagrams, a unix stream, and TCP on loopback if configured."""

import contextlib
import errno
import grp
import selectors
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.readings.line import MAX_LINE_BYTES
from telemetry.errors import NotPermittedError, TransientError

LOOPBACK = "127.0.0.1"
# heuristic: a connection per meter and per rank of a large job on the node, with room to spare.
MAX_CONNECTIONS = 64
_BACKLOG = 16
_RECEIVE_BYTES = 4 * MAX_LINE_BYTES
# heuristic: bytes per line, since a stream's share is counted in bytes.
_BYTES_PER_LINE, _MIN_SHARE_BYTES = 64, 256
_OWN_MODE, _GROUP_MODE = 0o600, 0o660


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Addresses and permissions of the sockets.

    Parameters
    ----------
    path
        The datagram socket; the stream socket is in the same folder, see `stream_path`.
    group
        Group whose members may send too; empty for this user alone.
    tcp_port
        Port on the loopback address, None for no TCP.
    """

    path: Path
    group: str = ""
    tcp_port: int | None = None

    @property
    def lacks_group(self) -> bool:
        """True if this machine does not have the group."""
        try:
            grp.getgrnam(self.group or "root")
        except (KeyError, ValueError):
            return True
        return False

    @property
    def stream_path(self) -> Path:
        """Path of the stream socket: ``readings-stream.sock`` next to ``readings.sock``."""
        return self.path.with_name(f"{self.path.stem}-stream{self.path.suffix}")


class _Connection:
    """A stream and its unfinished line."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.partial = b""

    def send_refusal(self, reason: str) -> None:
        """Send the reason to the other end; ignore errors, since it may not read."""
        with contextlib.suppress(OSError):
            self.sock.send(f"refused: {reason}\n".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A line without its end, and a function that sends a refusal; a datagram's sender receives none."""

    line: bytes
    refuse: Callable[[str], None]


class Listener:
    """Receives lines, a limited number at a time; further ones wait in the kernel, and then the sender blocks.

    Memory is bounded: connections, the unfinished line of each, and the lines per fetch are limited.
    """

    def __init__(self, settings: ListenerSettings) -> None:
        self._settings = settings
        self._selector: selectors.BaseSelector | None = None
        self._datagrams: socket.socket | None = None
        self._paths: list[Path] = []
        self._connections: dict[socket.socket, _Connection] = {}
        # Ended, and closed at the next fetch: until then refusals of their last lines can be sent.
        self._ending: list[socket.socket] = []
        self.tcp_port: int | None = None
        self.rejected_connections = 0

    def open(self) -> None:
        """Create the sockets; a socket file of a dead process is removed.

        NotPermittedError or TransientError where a socket cannot be created; the message names it and the reason.
        """
        self.close()
        self._selector = selectors.DefaultSelector()
        settings = self._settings
        try:
            self._datagrams = self._unix(settings.path, socket.SOCK_DGRAM)
            self._selector.register(self._datagrams, selectors.EVENT_READ)
            stream = self._unix(settings.stream_path, socket.SOCK_STREAM)
            stream.listen(_BACKLOG)
            self._selector.register(stream, selectors.EVENT_READ)
            if settings.tcp_port is not None:
                tcp = _tcp(settings.tcp_port)
                self.tcp_port = tcp.getsockname()[1]
                self._selector.register(tcp, selectors.EVENT_READ)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every socket and remove their files; closing twice is harmless."""
        self._close_ended()
        if self._selector is not None:
            for key in list(self._selector.get_map().values()):
                sock = key.fileobj
                if isinstance(sock, socket.socket):
                    sock.close()
            self._selector.close()
            self._selector = None
        for path in self._paths:
            path.unlink(missing_ok=True)
        self._paths, self._connections, self._datagrams = [], {}, None

    def fetch(self, timeout_s: float, most: int) -> list[Received]:
        """Wait up to the time-out for lines and return about `most` at most, shared among all senders."""
        if self._selector is None:
            self.open()
        self._close_ended()
        received: list[Received] = []
        ready = [] if self._selector is None else self._selector.select(timeout_s)
        share = max(1, most // max(1, len(ready)))
        for key, _ in ready:
            sock = key.fileobj
            if not isinstance(sock, socket.socket):
                continue
            connection = self._connections.get(sock)
            if sock is self._datagrams:
                received += _datagram_lines(sock, share)
            elif connection is None:
                self._accept(sock)
            else:
                received += self._stream_lines(connection, max(_MIN_SHARE_BYTES, share * _BYTES_PER_LINE))
        return received

    def _unix(self, path: Path, kind: socket.SocketKind) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, kind)
        try:
            _remove_left_behind(path, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            sock.bind(str(path))
            self._paths.append(path)
            path.chmod(_OWN_MODE)
            if self._settings.group:
                shutil.chown(path, group=self._settings.group)
                path.chmod(_GROUP_MODE)
        except LookupError as err:
            sock.close()
            raise NotPermittedError(f"{path}: there is no group {self._settings.group}") from err
        except PermissionError as err:
            sock.close()
            raise NotPermittedError(f"{path}: {err.strerror}") from err
        except OSError as err:
            sock.close()
            raise TransientError(f"{path}: {err.strerror or err}") from err
        sock.settimeout(0)
        return sock

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = listening.accept()
            sock.settimeout(0)
            connection = _Connection(sock)
            if len(self._connections) >= MAX_CONNECTIONS or self._selector is None:
                self.rejected_connections += 1
                connection.send_refusal(f"{MAX_CONNECTIONS} connections are already open")
                sock.close()
                return
            self._connections[sock] = connection
            self._selector.register(sock, selectors.EVENT_READ)

    def _stream_lines(self, connection: _Connection, most_bytes: int) -> Iterator[Received]:
        try:
            chunk = connection.sock.recv(most_bytes)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        *lines, connection.partial = (connection.partial + chunk).split(b"\n")
        too_long = len(connection.partial) > MAX_LINE_BYTES
        if not chunk or too_long:
            lines.append(connection.partial)  # last line without a newline
            self._forget(connection)
        for line in lines:
            if line.strip():
                yield Received(line=line, refuse=connection.send_refusal)

    def _close_ended(self) -> None:
        for sock in self._ending:
            sock.close()
        self._ending = []

    def _forget(self, connection: _Connection) -> None:
        if self._selector is not None:
            self._selector.unregister(connection.sock)
        self._connections.pop(connection.sock, None)
        self._ending.append(connection.sock)


def _datagram_lines(sock: socket.socket, most: int) -> Iterator[Received]:
    """Yield the lines of whole datagrams, about `most` of them."""
    count = 0
    while count < most:
        try:
            # The kernel truncates longer ones, which are then refused for their length.
            datagram = sock.recv(_RECEIVE_BYTES)
        except OSError:
            return
        for line in datagram.split(b"\n"):
            count += 1
            if line.strip():
                yield Received(line=line, refuse=lambda _: None)


def _tcp(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        sock.listen(_BACKLOG)
    except OSError as err:
        sock.close()
        raise TransientError(f"{LOOPBACK}:{port}: {err.strerror}") from err
    sock.settimeout(0)
    return sock


def _remove_left_behind(path: Path, kind: socket.SocketKind) -> None:
    """Remove a socket file without a listener; any other file stays, and binding fails."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(0)  # a listener with a full backlog would block for ever
        try:
            probe.connect(str(path))
        except OSError as err:
            if err.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
