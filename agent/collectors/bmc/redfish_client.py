"""Client of a Redfish service over one persistent connection: DMTF DSP0266."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import urllib3

from agent.collectors.bmc.settings import REDFISH_PORT, BmcSettings, Login, Transport
from telemetry.clock import Clock
from telemetry.errors import (
    ActionRefusedError,
    EnvironmentLacksError,
    NotPermittedError,
    NotSupportedError,
    RailwatchError,
    TransientError,
)
from telemetry.json_text import json_bytes

logger = logging.getLogger(__name__)

ROOT = "/redfish/v1/"
Resource = Mapping[str, Any]

# heuristic: controllers take up to seconds for one resource; two time-outs stay below the 30 s after which a rare
# source counts as hung. Logging out has a shorter limit, since the controller is often dead by then.
_TIMEOUT = urllib3.Timeout(connect=2.0, read=4.0)
_END_TIMEOUT = urllib3.Timeout(total=1.0)
# heuristic: the largest collections, logs of a thousand entries, have about one MiB.
_MAX_BYTES = 8 << 20
# heuristic: a resource with an ETag is fetched again after this time, since not every controller changes its tags.
_TAG_TRUSTED_S = 60.0
_MAX_TAGS = 64
_MOVED = (301, 302, 303, 307, 308)
_HEADERS = {"Accept": "application/json", "OData-Version": "4.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    status: int
    headers: Mapping[str, str]  # names in any case
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tagged:
    tag: str
    since_s: float
    resource: Resource


class RedfishClient:
    """Client that reads resources of one service.

    Every failure is one of `telemetry.errors`: NotSupportedError where there is no such resource, NotPermittedError
    where the service refuses this user, TransientError for everything that may be over by the next round: no
    connection, no response in time, and as BrokenResourceError a response that is no resource.
    """

    def __init__(self, settings: BmcSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._token: str | None = None
        self._session_path: str | None = None
        self._basic = settings.login is Login.BASIC
        self._sessions_path = f"{ROOT}SessionService/Sessions"
        self._tagged: dict[str, _Tagged] = {}
        scheme = "http" if settings.transport is Transport.PLAIN else "https"
        self.name = f"Redfish at {scheme}://{settings.address}:{settings.port or REDFISH_PORT}"

    def root(self) -> Resource:
        """Return the service root, which needs no login, and note its path for sessions."""
        root = self._fetch(ROOT, {})
        sessions = link(child(root, "Links"), "Sessions")
        if sessions is not None:
            self._sessions_path = sessions
        return root

    def get(self, path: str) -> Resource:
        """Return a resource as it is now."""
        return self._logged_in(path, {})

    def get_tagged(self, path: str) -> Resource:
        """Return a resource; with a conditional request where the service sent an ETag for it."""
        cached, now_s = self._tagged.get(path), self._clock.monotonic_s()
        if cached is not None and now_s - cached.since_s > _TAG_TRUSTED_S:
            cached = None
        return self._logged_in(path, {}, cached=cached, keep=True)

    def post(self, path: str, body: Resource) -> None:
        """Send an action once, without retries.

        ActionRefusedError where the service refuses the action; nothing was changed.
        """
        headers = self._proof()
        response = self._request("POST", path, headers, body=json_bytes(body))
        if response.status in (200, 201, 202, 204):
            return
        if response.status in (400, 409):
            raise ActionRefusedError(f"{self.name}{path}: action refused (HTTP {response.status})")
        if response.status == 401:
            raise NotPermittedError(f"{self.name} refuses this user")
        self._check(response, path)
        raise TransientError(f"{self.name}{path}: HTTP {response.status}")

    def close(self) -> None:
        """Close the session and the connection; closing twice is harmless."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._session_path is not None and self._token is not None:
            headers = {"X-Auth-Token": self._token}
            try:  # services allow few sessions, and keep one until it times out
                pool.request("DELETE", self._session_path, headers=headers, timeout=_END_TIMEOUT, retries=False)
            except urllib3.exceptions.HTTPError as err:
                logger.debug("%s: cannot close the session: %s", self.name, type(err).__name__)
        self._token = self._session_path = None
        pool.close()

    def _logged_in(
        self, path: str, headers: dict[str, str], *, cached: _Tagged | None = None, keep: bool = False
    ) -> Resource:
        """Fetch with credentials; log in again, once, where the session has expired."""
        had_token = self._token is not None
        try:
            return self._fetch(path, headers | self._proof(), cached=cached, keep=keep)
        except _NoSessionError as err:
            if not had_token:
                raise NotPermittedError(f"{self.name} refuses this user") from err
            self._token = self._session_path = None
        try:
            return self._fetch(path, headers | self._proof(), cached=cached, keep=keep)
        except _NoSessionError as err:
            raise NotPermittedError(f"{self.name} refuses the session that it has just created") from err

    def _proof(self) -> dict[str, str]:
        """Return the headers with the credentials; log in where there is no session."""
        settings = self._settings
        if not settings.user:
            return {}
        if not self._basic and self._token is None:
            self._log_in()
        if self._token is not None:
            return {"X-Auth-Token": self._token}
        return urllib3.make_headers(basic_auth=f"{settings.user}:{settings.password()}")

    def _log_in(self) -> None:
        """Create a session; without session support, user and password are sent with every request."""
        wanted = {"UserName": self._settings.user, "Password": self._settings.password()}
        response = self._request("POST", self._sessions_path, {}, body=json_bytes(wanted))
        token = response.headers.get("X-Auth-Token")
        if response.status in (200, 201) and token:
            self._token = token
            self._session_path = _path(response.headers.get("Location", ""))
        elif response.status in (401, 403):
            raise NotPermittedError(f"{self.name} refuses user or password")
        elif response.status in (404, 405, 501):
            self._basic = True
        else:
            raise TransientError(f"{self.name} creates no session (HTTP {response.status})")

    def _fetch(
        self, path: str, headers: dict[str, str], *, cached: _Tagged | None = None, keep: bool = False
    ) -> Resource:
        wanted = headers | ({"If-None-Match": cached.tag} if cached is not None else {})
        response = self._request("GET", path, wanted)
        if response.status in _MOVED:
            moved = _path(response.headers.get("Location", ""), host=self._settings.address)
            if moved is None or moved == path:
                raise TransientError(f"{self.name}{path} redirects to another service")
            response = self._request("GET", moved, wanted)
        if response.status == 304 and cached is not None:
            return cached.resource
        self._check(response, path)
        resource = _object(response.data, f"{self.name}{path}")
        tag = response.headers.get("ETag")
        if keep and tag:
            if len(self._tagged) >= _MAX_TAGS:
                self._tagged.clear()
            self._tagged[path] = _Tagged(tag=tag, since_s=self._clock.monotonic_s(), resource=resource)
        return resource

    def _check(self, response: _Reply, path: str) -> None:
        status = response.status
        if status == 200:
            return
        if status == 401:
            raise _NoSessionError(f"{self.name}{path}: HTTP 401")
        if status == 403:
            raise ForbiddenResourceError(f"{self.name}{path}: this user may not read it (HTTP 403)")
        if status in (404, 405, 410, 501):
            raise NotSupportedError(f"{self.name}{path}: no such resource (HTTP {status})")
        raise BrokenResourceError(f"{self.name}{path}: HTTP {status}")

    def _request(self, method: str, path: str, headers: dict[str, str], *, body: bytes | None = None) -> _Reply:
        sent = _HEADERS | headers | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            response = self._connection().request(
                method,
                path,
                body=body,
                headers=sent,
                timeout=_TIMEOUT,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            data = response.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                response.close()
                raise BrokenResourceError(f"{self.name}{path}: more than {_MAX_BYTES >> 20} MiB")
            response.release_conn()
        except urllib3.exceptions.SSLError as err:
            raise _tls_error(self.name, err) from err
        except urllib3.exceptions.HTTPError as err:
            raise TransientError(f"{self.name}: {_reason(err)}") from err
        return _Reply(status=response.status, headers=response.headers, data=data)

    def _connection(self) -> urllib3.HTTPConnectionPool:
        """Return the connection; its first request opens it, and a later one reopens it where it was lost."""
        if self._pool is None:
            settings = self._settings
            port = settings.port or REDFISH_PORT
            if settings.transport is Transport.PLAIN:
                self._pool = urllib3.HTTPConnectionPool(settings.address, port, maxsize=1)
                return self._pool
            unchecked = settings.transport is Transport.TLS_UNCHECKED
            if unchecked:  # as configured; one log line instead of one per request
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
                logger.warning("%s: certificate not verified, as configured", self.name)
            if settings.ca_file is not None and not settings.ca_file.is_file():
                raise EnvironmentLacksError(f"{settings.ca_file} does not exist: expected certificates")
            self._pool = urllib3.HTTPSConnectionPool(
                settings.address,
                port,
                maxsize=1,
                cert_reqs="CERT_NONE" if unchecked else "CERT_REQUIRED",
                assert_hostname=False if unchecked else None,
                ca_certs=None if settings.ca_file is None else str(settings.ca_file),
            )
        return self._pool


class BrokenResourceError(TransientError):
    """The service responds without this resource: with an error, or with no JSON object."""


class ForbiddenResourceError(NotPermittedError):
    """The service knows this user, who may not read this resource."""


# Errors of one resource, which do not affect others. A refused user is not among them: the next resource would be one
# more attempt with the wrong password, and services lock users out.
RESOURCE_ERRORS = (NotSupportedError, ForbiddenResourceError, BrokenResourceError)


class _NoSessionError(RailwatchError):
    """The session does not exist, or has expired."""


def child(resource: Resource, name: str) -> Resource:
    """Return an object within a resource; an empty one where it is missing or no object."""
    value = resource.get(name)
    return value if isinstance(value, dict) else {}


def children(resource: Resource, name: str) -> tuple[Resource, ...]:
    """Return the objects of a list within a resource, without members that are none."""
    value = resource.get(name)
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def link(resource: Resource, name: str = "") -> str | None:
    """Return the ``@odata.id`` of a resource, or of an object within it; None where it has none."""
    path = (child(resource, name) if name else resource).get("@odata.id")
    return path if isinstance(path, str) and path.startswith("/") else None


def text_field(resource: Resource, name: str) -> str:
    """Return a text field of a resource; empty where there is none."""
    value = resource.get(name)
    return value if isinstance(value, str) else ""


def _object(data: bytes, where: str) -> Resource:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as err:
        begin = data[:40].decode("latin-1").split("\n", 1)[0].strip()
        raise BrokenResourceError(f"{where} is not JSON: begins with {begin!r}") from err
    if not isinstance(found, dict):
        raise BrokenResourceError(f"{where} is not a JSON object")
    return found


def _path(location: str, *, host: str | None = None) -> str | None:
    """Return the path of an address on the same host; None where it is none."""
    parts = urlsplit(location)
    if not parts.path.startswith("/") or (host is not None and parts.hostname not in (None, host)):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _reason(err: urllib3.exceptions.HTTPError) -> str:
    """Return the reason of a failed request, without the library's wrapping."""
    if isinstance(err, urllib3.exceptions.NewConnectionError):
        return "no response from that address"
    if isinstance(err, urllib3.exceptions.TimeoutError):
        return "no response in time"
    return f"the connection broke ({type(err).__name__})"


def _tls_error(name: str, err: urllib3.exceptions.SSLError) -> NotPermittedError | TransientError:
    """Return NotPermittedError for a refused certificate, TransientError for a broken handshake (service starting)."""
    inner = err.args[0] if err.args else err
    reason = str(getattr(inner, "verify_message", "") or inner)
    if isinstance(inner, ValueError):  # the standard library and urllib3 both report a bad certificate so
        return NotPermittedError(f"{name}: certificate not accepted: {reason}")
    return TransientError(f"{name}: no TLS connection: {reason}")
