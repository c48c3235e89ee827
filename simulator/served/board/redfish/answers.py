"""Responses to HTTP requests. Only sessions can be created or deleted."""

import hashlib
import json
from collections.abc import Mapping

from fastapi import Request, Response

from simulator.served.board.redfish.metadata import SCHEMAS_AT, metadata
from simulator.served.board.redfish.resource import ROOT, SESSIONS, Resource
from simulator.served.board.redfish.sessions import Sessions
from simulator.served.board.redfish.tree import RedfishTree

METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE")
_REGISTRY = "Base.1.18"  # message registry, DMTF DSP8011; the sentences are its own
_METADATA = f"{ROOT}/$metadata"
_HEADERS = {"OData-Version": "4.0", "Cache-Control": "no-cache"}
# These may be read by anybody, DSP0266 on authentication requirements.
_OPEN = ("/redfish", ROOT, f"{ROOT}/odata", _METADATA)


class RefusedError(Exception):
    """A request that is answered with a message of the registry and no resource."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = f"{_REGISTRY}.{code}"
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Answers:
    """A tree of resources and its sessions behind HTTP; used in one event loop alone."""

    def __init__(self, tree: RedfishTree, sessions: Sessions, *, login_needed: bool) -> None:
        self._tree = tree
        self._sessions = sessions
        self._login_needed = login_needed

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        try:
            return await self._answer(request)
        except RefusedError as err:
            return _refusal(err)

    async def _answer(self, request: Request) -> Response:
        path, method = request.url.path.rstrip("/"), request.method
        if path == SESSIONS and method == "POST":
            return self._log_in(await request.body())
        if self._login_needed and path not in _OPEN and not self._sessions.admits(request.headers):
            raise _unauthorised()
        if path == _METADATA:
            return Response(metadata(), media_type="application/xml", headers=_HEADERS)
        resource = self._sessions.resource(path) or self._tree.resource(path)
        if resource is None:
            raise RefusedError(404, "ResourceMissingAtURI", f"The resource at the URI {path} was not found.")
        if method == "DELETE" and self._sessions.end(path):
            return Response(status_code=204, headers=_HEADERS)
        if method not in ("GET", "HEAD"):
            text = "The HTTP method is not allowed on this resource."
            raise RefusedError(405, "OperationNotAllowed", text, Allow=_allowed(path))
        if any(name.startswith("$") for name in request.query_params):
            raise RefusedError(501, "QueryNotSupported", "Querying is not supported by the implementation.")
        return _shown(resource, path, request.headers)

    def _log_in(self, body: bytes) -> Response:
        try:
            asked = json.loads(body)
            user, password = str(asked["UserName"]), str(asked["Password"])
        except (ValueError, KeyError, TypeError) as err:
            text = "The request body submitted was malformed JSON and could not be parsed by the receiving service."
            raise RefusedError(400, "MalformedJSON", text) from err
        session = self._sessions.begin(user=user, password=password)
        if session is None:
            raise _unauthorised()
        headers = {**_HEADERS, "Location": session.path, "X-Auth-Token": session.token}
        return _json(self._sessions.resource(session.path), status=201, headers=headers)


def _shown(resource: Resource, path: str, asked: Mapping[str, str]) -> Response:
    """Show a resource; a client that has this very text already is told only that."""
    tag = f'"{hashlib.sha256(json.dumps(resource).encode()).hexdigest()[:16]}"'
    headers = {**_HEADERS, "ETag": tag, "Allow": _allowed(path)}
    if "@odata.type" in resource:
        schema = resource["@odata.type"].lstrip("#").rpartition(".")[0]
        headers["Link"] = f"<{SCHEMAS_AT}/{schema}.json>; rel=describedby"
    if asked.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return _json(resource, headers=headers)


def _json(value: Resource | None, *, headers: Mapping[str, str], status: int = 200) -> Response:
    return Response(json.dumps(value), status_code=status, media_type="application/json", headers=headers)


def _allowed(path: str) -> str:
    """Return what may be done at a path."""
    if path == SESSIONS:
        return "GET, HEAD, POST"
    return "GET, HEAD, DELETE" if path.startswith(f"{SESSIONS}/") else "GET, HEAD"


def _unauthorised() -> RefusedError:
    text = "There is no valid session established with the implementation."
    return RefusedError(401, "NoValidSession", text, WWW_Authenticate='Basic realm="Redfish"')


def _refusal(refused: RefusedError) -> Response:
    extended_info = {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": refused.code,
        "Message": str(refused),
        "MessageSeverity": "Critical",
        "Resolution": "None.",
    }
    body = {"error": {"code": refused.code, "message": str(refused), "@Message.ExtendedInfo": [extended_info]}}
    return _json(body, status=refused.status, headers={**_HEADERS, **refused.headers})
