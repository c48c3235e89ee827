"""Access to the actuator: the kernel reports the peer of each connection, nothing that it sends counts. Refusals."""

import contextlib
import logging
import os
import socket
import struct
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

# struct ucred, unix(7): pid, uid, gid.
_CREDENTIALS = struct.Struct("3i")
# asm-generic/socket.h, since Linux 4.13; Python has no name for it. Returns the supplementary groups.
_SO_PEERGROUPS = 59
# Room for 1024 groups.
_GROUPS_BYTES = 4096
# Connections that may wait while a driver call is under way.
BACKLOG = 128

# heuristic: a client that floods the socket must not fill the disk; the counts go on.
LOG_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPeer:
    """Process at the other end of a socket, at the time of the connection."""

    pid: int
    uid: int
    gids: frozenset[int]

    @property
    def label(self) -> str:
        """Process and user, for the log."""
        return f"process {self.pid} of uid {self.uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Users and groups that may send requests, besides root and the actuator's own user.

    `gid` owns the socket, so that its members may open it. Users that are named may be in any group: then every user
    may open the socket, and the kernel's report of the peer decides.
    """

    gid: int | None = None
    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()

    @property
    def socket_mode(self) -> int:
        """Permissions of the socket."""
        if self.uids:
            return 0o666
        return 0o600 if self.gid is None else 0o660

    @property
    def folder_mode(self) -> int:
        """Permissions of the folder of the socket, if it has to be created."""
        return {0o600: 0o700, 0o660: 0o750, 0o666: 0o755}[self.socket_mode]

    def allows(self, peer: SocketPeer) -> bool:
        """Return True if a peer may send requests."""
        groups = self.gids if self.gid is None else self.gids | {self.gid}
        return peer.uid in (0, os.geteuid()) or peer.uid in self.uids or bool(peer.gids & groups)


OWN_USER = Access()


def peer_of(connection: socket.socket) -> SocketPeer:
    """Return the peer of a connection; OSError where the kernel does not report it."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:  # an older kernel, or too many: then the first group counts
        packed = b""
    groups = struct.unpack(f"{len(packed) // 4}I", packed)
    return SocketPeer(pid=pid, uid=uid, gids=frozenset((gid, *groups)))


def listen(path: Path, access: Access) -> socket.socket:
    """Return a listening socket at a path that only those with access may open.

    EnvironmentLacksError where it cannot be created there.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, mode=access.folder_mode)
            _set_group(path.parent, access)
        with contextlib.suppress(FileNotFoundError):
            if path.is_socket():  # left by a killed run; the lock of the journal proves that no process listens there
                path.unlink()
        earlier = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(earlier)
        _set_group(path, access)
        path.chmod(access.socket_mode)
        listener.listen(BACKLOG)
    except OSError as err:
        listener.close()
        raise EnvironmentLacksError(
            f"{path}: {err.strerror or err}; expected a path for the actuator's socket"
        ) from err
    listener.setblocking(False)  # noqa: FBT003 -- the library's own flag
    return listener


def _set_group(path: Path, access: Access) -> None:
    """Set the group that owns it, if there is one."""
    if access.gid is not None:
        os.chown(path, -1, access.gid)


class Refusal(StrEnum):
    """Reason of a refusal."""

    PEER = "peer"
    CROWD = "crowd"
    TOO_LONG = "too_long"
    NOT_UNDERSTOOD = "not_understood"
    NOT_ALLOWED = "not_allowed"


class Refusals:
    """Counts refusals by reason."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts = Counter[Refusal]()
        self._logged = Counter[Refusal]()
        self._log_at_s: dict[Refusal, float] = {}

    def note(self, refusal: Refusal, text: str) -> None:
        """Count a refusal; log the first of a kind at once, then at most one line in ten seconds."""
        self._counts[refusal] += 1
        now_s = self._clock.monotonic_s()
        if now_s < self._log_at_s.get(refusal, now_s):
            return
        self._log_at_s[refusal] = now_s + LOG_EVERY_S
        more = self._counts[refusal] - self._logged[refusal] - 1
        self._logged[refusal] = self._counts[refusal]
        logger.warning("actuator refused a request: %s%s", text, f" ({more} more since the last line)" if more else "")

    @property
    def counts(self) -> dict[str, int]:
        """Refusals of each kind since the start."""
        return {refusal.value: self._counts[refusal] for refusal in Refusal}
