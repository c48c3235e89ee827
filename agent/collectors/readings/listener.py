"""The sockets that other programs send their lines to: unix datagrams, a unix stream, and TCP on loopback if wanted."""

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
# What a line takes, about: a stream's turn is counted in bytes.
_BYTES_PER_LINE, _SHORTEST_TURN_BYTES = 64, 256
_OWN_MODE, _GROUP_MODE = 0o600, 0o660


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Where to listen.

    Parameters
    ----------
    path
        The datagram socket; the stream socket lies beside it, see `stream_path`.
    group
        Whose members may send too; empty for this user alone.
    tcp_port
        Port on the loopback address, None for none.
    """

    path: Path
    group: str = ""
    tcp_port: int | None = None

    @property
    def lacks_group(self) -> bool:
        """Whether this machine has no such group."""
        try:
            grp.getgrnam(self.group or "root")
        except (KeyError, ValueError):
            return True
        return False

    @property
    def stream_path(self) -> Path:
        """``readings-stream.sock`` beside ``readings.sock``."""
        return self.path.with_name(f"{self.path.stem}-stream{self.path.suffix}")


class _Connection:
    """One stream and the start of a line that has not ended yet."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.partial = b""

    def send_refusal(self, reason: str) -> None:
        """Send the reason back if the other end takes it; it need not."""
        with contextlib.suppress(OSError):
            self.sock.send(f"refused: {reason}\n".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A line without its end, and how to tell its sender that it is refused; nobody hears it behind a datagram."""

    line: bytes
    refuse: Callable[[str], None]


class Listener:
    """Gives the lines that came, at most so many at a time; what is not fetched waits in the kernel, then the sender.

    Nothing grows without bound: connections, the unfinished line of each, and what is fetched at once are limited.
    """

    def __init__(self, settings: ListenerSettings) -> None:
        self._settings = settings
        self._selector: selectors.BaseSelector | None = None
        self._datagrams: socket.socket | None = None
        self._paths: list[Path] = []
        self._connections: dict[socket.socket, _Connection] = {}
        # Ended, and closed at the next look: until then their last lines can be answered.
        self._ending: list[socket.socket] = []
        self.tcp_port: int | None = None
        self.rejected_connections = 0

    def open(self) -> None:
        """Listen; a socket that a dead process left in the place is removed.

        Raises
        ------
        NotPermittedError, TransientError
            A socket cannot be made; the message names it and says why.
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
        """Let every socket go and remove their files; closing twice is harmless."""
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
        """Wait up to the time-out for lines and give at most about `most`; every sender has its turn."""
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
                received += self._stream_lines(connection, max(_SHORTEST_TURN_BYTES, share * _BYTES_PER_LINE))
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
                connection.send_refusal(f"{MAX_CONNECTIONS} connections are open already")
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
            lines.append(connection.partial)  # the last line of a sender that ends without a newline
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
    """Yield the lines of whole datagrams until there are so many."""
    given = 0
    while given < most:
        try:
            # Longer ones are cut by the kernel and then refused for their length.
            datagram = sock.recv(_RECEIVE_BYTES)
        except OSError:
            return
        for line in datagram.split(b"\n"):
            given += 1
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
    """Remove a socket that nobody listens at; anything else in the place stays, and binding tells of it."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(0)  # a listener that takes nobody in any more would be waited for without end
        try:
            probe.connect(str(path))
        except OSError as err:
            if err.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
