"""Who may ask the actuator: told by the kernel at each connection, not by what anybody says of himself."""

import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from telemetry.errors import EnvironmentLacksError

# struct ucred, unix(7): pid, uid, gid.
_CREDENTIALS = struct.Struct("3i")
# asm-generic/socket.h, since Linux 4.13; Python has no name for it. Gives the supplementary groups.
_SO_PEERGROUPS = 59
# Room for 1024 groups; nobody has more who may ask.
_GROUPS_BYTES = 4096
# How many may knock while a driver call is under way.
BACKLOG = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end of a socket, as it was when it connected."""

    pid: int
    uid: int
    gids: frozenset[int]

    @property
    def words(self) -> str:
        """What a log calls it."""
        return f"process {self.pid} of uid {self.uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may ask: the actuator's own user and root always, besides these users and members of these groups.

    `gid` owns the socket, which its members may then open. Users that are named may be in any group: then everybody
    may open it, and who it is decides, which the kernel tells.
    """

    gid: int | None = None
    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()

    @property
    def socket_mode(self) -> int:
        """The permissions of the socket."""
        if self.uids:
            return 0o666
        return 0o600 if self.gid is None else 0o660

    @property
    def folder_mode(self) -> int:
        """The permissions of the folder of the socket, where it has to be made."""
        return {0o600: 0o700, 0o660: 0o750, 0o666: 0o755}[self.socket_mode]

    def allows(self, peer: Peer) -> bool:
        """Return whether a peer may ask."""
        groups = self.gids if self.gid is None else self.gids | {self.gid}
        return peer.uid in (0, os.geteuid()) or peer.uid in self.uids or bool(peer.gids & groups)


OWN_USER = Access()


def peer_of(connection: socket.socket) -> Peer:
    """Return who is at the other end.

    Raises
    ------
    OSError
        The kernel does not say.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:  # an older kernel, or too many: then the first group counts
        packed = b""
    groups = struct.unpack(f"{len(packed) // 4}I", packed)
    return Peer(pid=pid, uid=uid, gids=frozenset((gid, *groups)))


def listen(path: Path, access: Access) -> socket.socket:
    """Return a socket that listens at a path and that only those with access may open.

    Raises
    ------
    EnvironmentLacksError
        It cannot be made there.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, mode=access.folder_mode)
            _give(path.parent, access)
        with contextlib.suppress(FileNotFoundError):
            if path.is_socket():  # what a killed run left; the journal's lock says that nobody listens there
                path.unlink()
        earlier = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(earlier)
        _give(path, access)
        path.chmod(access.socket_mode)
        listener.listen(BACKLOG)
    except OSError as err:
        listener.close()
        raise EnvironmentLacksError(
            f"{path}: {err.strerror or err}; expected a path for the actuator's socket"
        ) from err
    listener.setblocking(False)  # noqa: FBT003 -- the library's own flag
    return listener


def _give(path: Path, access: Access) -> None:
    """Let the group own it, where there is one."""
    if access.gid is not None:
        os.chown(path, -1, access.gid)
