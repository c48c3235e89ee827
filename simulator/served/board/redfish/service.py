"""The Redfish service over HTTP on loopback, in a thread of its own. Only sessions can be created or deleted."""

import hashlib
import json
import socket
import threading
from collections.abc import Mapping
from xml.sax.saxutils import quoteattr

import uvicorn
from fastapi import FastAPI, Request, Response

from simulator.served.board.redfish.resource import COLLECTED, ROOT, SCHEMAS, SESSIONS, Resource
from simulator.served.board.redfish.sessions import RedfishSessions
from simulator.served.board.redfish.tree import RedfishTree
from telemetry.errors import EnvironmentLacksError
from telemetry.json_text import json_bytes, json_text

SCHEMAS_AT = "http://redfish.dmtf.org/schemas/v1"
METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE")
_REGISTRY = "Base.1.18"  # message registry, DMTF DSP8011; the sentences are its own
_METADATA = f"{ROOT}/$metadata"
_HEADERS = {"OData-Version": "4.0", "Cache-Control": "no-cache"}
# These may be read by anybody, DSP0266 on authentication requirements.
_OPEN = ("/redfish", ROOT, f"{ROOT}/odata", _METADATA)
_END_S = 3.0


def metadata() -> str:
    """Return the list of schemas in use, as CSDL wants it; their text stands at DMTF."""
    names = {name: [name, f"{name}.{version}"] for name, version in SCHEMAS.items()}
    names |= {f"{name}Collection": [f"{name}Collection"] for name in COLLECTED}
    references = "".join(
        f"<edmx:Reference Uri={quoteattr(f'{SCHEMAS_AT}/{name}_v1.xml')}>"
        + "".join(f"<edmx:Include Namespace={quoteattr(space)}/>" for space in spaces)
        + "</edmx:Reference>"
        for name, spaces in names.items()
    )
    root = f"ServiceRoot.{SCHEMAS['ServiceRoot']}.ServiceContainer"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">'
        f'{references}<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">'
        f'<EntityContainer Name="Service" Extends="{root}"/>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    )


class RedfishRefusedError(Exception):
    """A request that is answered with a message of the registry and no resource."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = f"{_REGISTRY}.{code}"
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class RedfishHandler:
    """A tree of resources and its sessions behind HTTP; used in one event loop alone."""

    def __init__(self, tree: RedfishTree, sessions: RedfishSessions, *, login_needed: bool) -> None:
        self._tree = tree
        self._sessions = sessions
        self._login_needed = login_needed

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        try:
            return await self._answer(request)
        except RedfishRefusedError as err:
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
            raise RedfishRefusedError(404, "ResourceMissingAtURI", f"The resource at the URI {path} was not found.")
        if method == "DELETE" and self._sessions.end(path):
            return Response(status_code=204, headers=_HEADERS)
        if method not in ("GET", "HEAD"):
            text = "The HTTP method is not allowed on this resource."
            raise RedfishRefusedError(405, "OperationNotAllowed", text, Allow=_allowed(path))
        if any(name.startswith("$") for name in request.query_params):
            raise RedfishRefusedError(501, "QueryNotSupported", "Querying is not supported by the implementation.")
        return _shown(resource, path, request.headers)

    def _log_in(self, body: bytes) -> Response:
        try:
            asked = json.loads(body)
            user, password = str(asked["UserName"]), str(asked["Password"])
        except (ValueError, KeyError, TypeError) as err:
            text = "The request body submitted was malformed JSON and could not be parsed by the receiving service."
            raise RedfishRefusedError(400, "MalformedJSON", text) from err
        session = self._sessions.begin(user=user, password=password)
        if session is None:
            raise _unauthorised()
        headers = {**_HEADERS, "Location": session.path, "X-Auth-Token": session.token}
        return _json(self._sessions.resource(session.path), status=201, headers=headers)


def _shown(resource: Resource, path: str, asked: Mapping[str, str]) -> Response:
    """Return a resource; 304 to a client that already has this very text."""
    tag = f'"{hashlib.sha256(json_bytes(resource)).hexdigest()[:16]}"'
    headers = {**_HEADERS, "ETag": tag, "Allow": _allowed(path)}
    if "@odata.type" in resource:
        schema = resource["@odata.type"].lstrip("#").rpartition(".")[0]
        headers["Link"] = f"<{SCHEMAS_AT}/{schema}.json>; rel=describedby"
    if asked.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return _json(resource, headers=headers)


def _json(value: Resource | None, *, headers: Mapping[str, str], status: int = 200) -> Response:
    return Response(json_text(value), status_code=status, media_type="application/json", headers=headers)


def _allowed(path: str) -> str:
    """Return the HTTP methods that a path allows."""
    if path == SESSIONS:
        return "GET, HEAD, POST"
    return "GET, HEAD, DELETE" if path.startswith(f"{SESSIONS}/") else "GET, HEAD"


def _unauthorised() -> RedfishRefusedError:
    text = "There is no valid session established with the implementation."
    return RedfishRefusedError(401, "NoValidSession", text, WWW_Authenticate='Basic realm="Redfish"')


def _refusal(refused: RedfishRefusedError) -> Response:
    extended_info = {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": refused.code,
        "Message": str(refused),
        "MessageSeverity": "Critical",
        "Resolution": "None.",
    }
    body = {"error": {"code": refused.code, "message": str(refused), "@Message.ExtendedInfo": [extended_info]}}
    return _json(body, status=refused.status, headers={**_HEADERS, **refused.headers})


class RedfishService:
    """A running service: a thread of its own.

    Parameters
    ----------
    port
        TCP port on loopback; 0 takes a free one.
    login_needed
        Whether a client must log in, by HTTP basic or a session; else every client is answered.

    Raises
    ------
    EnvironmentLacksError
        The port is taken.
    """

    def __init__(
        self, tree: RedfishTree, sessions: RedfishSessions, *, port: int = 0, login_needed: bool = False
    ) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as err:
            self._socket.close()
            raise EnvironmentLacksError(f"TCP port {port} of 127.0.0.1: {err.strerror}") from err
        self.login_needed = login_needed
        self.port: int = self._socket.getsockname()[1]
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        answers = RedfishHandler(tree, sessions, login_needed=login_needed)
        app.add_api_route("/redfish{rest:path}", answers.answer, methods=list(METHODS))
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="redfish", daemon=True
        )
        self._socket.listen()  # who comes before the thread is up waits
        self._thread.start()

    @property
    def address(self) -> str:
        """Return the address of the service root."""
        return f"http://127.0.0.1:{self.port}{ROOT}/"

    def close(self) -> None:
        """Stop the thread and close the port."""
        self._server.should_exit = True
        self._thread.join(_END_S)
        self._socket.close()
