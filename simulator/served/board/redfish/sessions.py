"""Authentication: HTTP basic, and sessions with a token (DSP0266, authentication)."""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.served.board.redfish.resource import SESSION_SERVICE, SESSIONS, Resource, collection, head, link
from telemetry.clock import Clock

TIMEOUT_S = 1800  # assumption: as most controllers come; the schema allows 30 to 86400
SESSIONS_MAX = 16  # assumption; beyond it the one that was idle longest ends


@dataclass(slots=True, kw_only=True)
class RedfishSession:
    """Client session; `used_s` is the time of its last request."""

    identity: str
    token: str
    used_s: float

    @property
    def path(self) -> str:
        """Return where it is found."""
        return f"{SESSIONS}/{self.identity}"


class RedfishSessions:
    """The sessions of one user; used from one thread."""

    def __init__(self, *, user: str, password: str, clock: Clock) -> None:
        self._user = user
        self._password = password
        self._clock = clock
        self._basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._open: dict[str, RedfishSession] = {}
        self._count = 0

    def begin(self, *, user: str, password: str) -> RedfishSession | None:
        """Open a session, None for a wrong user or password."""
        given, wanted = f"{user}\0{password}", f"{self._user}\0{self._password}"
        if not secrets.compare_digest(given.encode(), wanted.encode()):
            return None
        self._forget_idle()
        if len(self._open) >= SESSIONS_MAX:
            del self._open[min(self._open.values(), key=lambda session: session.used_s).identity]
        self._count += 1
        session = RedfishSession(
            identity=str(self._count), token=secrets.token_hex(16), used_s=self._clock.monotonic_s()
        )
        self._open[session.identity] = session
        return session

    def end(self, path: str) -> bool:
        """Stop the session at a path; False where there is none."""
        return self.resource(path) is not None and self._open.pop(path.rpartition("/")[2], None) is not None

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return True if a request shows a token or the user and password."""
        self._forget_idle()
        token = headers.get("x-auth-token", "").encode()
        for session in self._open.values():
            if secrets.compare_digest(session.token.encode(), token):
                session.used_s = self._clock.monotonic_s()
                return True
        return secrets.compare_digest(headers.get("authorization", "").encode(), self._basic.encode())

    def resource(self, path: str) -> Resource | None:
        """Return the session service, its collection or one session, None for any other path."""
        if path == SESSION_SERVICE:
            return {
                **head(path, "SessionService", identity="SessionService", name="Session service"),
                "ServiceEnabled": True,
                "SessionTimeout": TIMEOUT_S,
                "Sessions": link(SESSIONS),
            }
        if path == SESSIONS:
            return collection("Session", path, [link(session.path) for session in self._open.values()])
        folder, _, identity = path.rpartition("/")
        if folder != SESSIONS or identity not in self._open:
            return None
        return {**head(path, "Session", identity=identity, name=f"Session {identity}"), "UserName": self._user}

    def _forget_idle(self) -> None:
        oldest_s = self._clock.monotonic_s() - TIMEOUT_S
        self._open = {name: session for name, session in self._open.items() if session.used_s >= oldest_s}
