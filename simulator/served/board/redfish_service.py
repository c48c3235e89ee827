"""The Redfish resources over HTTP on loopback, read only."""

import base64
import secrets
import socket
import threading
from xml.sax.saxutils import quoteattr

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from simulator.served.board.redfish import ROOT, RedfishTree, Resource
from telemetry.errors import EnvironmentLacksError

# Registry messages of DMTF DSP8011.
_BASE = "Base.1.18"
_READ_ONLY = ("POST", "PATCH", "PUT", "DELETE")
_HEADERS = {"OData-Version": "4.0", "Cache-Control": "no-cache"}
_END_S = 3.0
# These may be read by anybody, DSP0266 on authentication requirements.
_OPEN = ("/redfish", ROOT, f"{ROOT}/odata", f"{ROOT}/$metadata")


class RedfishService:
    """A running service: a thread of its own.

    Parameters
    ----------
    port
        TCP port on loopback; 0 takes a free one.
    credentials
        User and password that a client must show (HTTP basic); None: whoever asks is answered.

    Raises
    ------
    EnvironmentLacksError
        The port is taken.
    """

    def __init__(self, tree: RedfishTree, *, port: int = 0, credentials: tuple[str, str] | None = None) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as err:
            self._socket.close()
            raise EnvironmentLacksError(f"TCP port {port} of 127.0.0.1: {err.strerror}") from err
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            redfish_app(tree, credentials), lifespan="off", log_config=None, access_log=False, server_header=False
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="redfish", daemon=True
        )
        self._socket.listen()  # who comes before the thread is up waits
        self._thread.start()

    @property
    def address(self) -> str:
        """Give the address of the service root."""
        return f"http://127.0.0.1:{self.port}{ROOT}/"

    def close(self) -> None:
        """End the thread and let the port go."""
        self._server.should_exit = True
        self._thread.join(_END_S)
        self._socket.close()


def redfish_app(tree: RedfishTree, credentials: tuple[str, str] | None) -> FastAPI:
    """Give the service as an application: every resource by GET and HEAD, 405 for what would change one."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    wanted = None if credentials is None else "Basic " + base64.b64encode(":".join(credentials).encode()).decode()

    @app.api_route("/redfish{rest:path}", methods=["GET", "HEAD", *_READ_ONLY])
    def answer(request: Request) -> Response:
        path = request.url.path
        shown = request.headers.get("authorization", "")
        if (
            wanted is not None
            and path.rstrip("/") not in _OPEN
            and not secrets.compare_digest(shown.encode(), wanted.encode())
        ):
            return _refusal(401, "NoValidSession", "Show a user and a password.", {"WWW-Authenticate": "Basic"})
        if path.rstrip("/") == f"{ROOT}/$metadata":
            return Response(_metadata(), media_type="application/xml", headers=_HEADERS)
        resource = tree.resource(path)
        if resource is None:
            return _refusal(404, "ResourceMissingAtURI", f"There is no resource at {path}.")
        if request.method in _READ_ONLY:
            return _refusal(405, "OperationNotAllowed", "This service can only be read.", {"Allow": "GET, HEAD"})
        return JSONResponse(resource, headers=_HEADERS)

    return app


def _refusal(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body: Resource = {
        "error": {
            "code": f"{_BASE}.{code}",
            "message": message,
            "@Message.ExtendedInfo": [{"MessageId": f"{_BASE}.{code}", "Message": message, "Severity": "Warning"}],
        }
    }
    return JSONResponse(body, status_code=status, headers=_HEADERS | (headers or {}))


def _metadata() -> str:
    """Give the list of schemas in use, as CSDL wants it; their text stands at DMTF."""
    names = (
        "ServiceRoot", "Chassis", "ComputerSystem", "Manager", "Sensor", "Power", "Thermal", "EnvironmentMetrics",
        "LogService", "LogEntry", "SessionService",
    )  # fmt: skip
    references = "".join(
        f"<edmx:Reference Uri={quoteattr(f'http://redfish.dmtf.org/schemas/v1/{name}_v1.xml')}>"
        f"<edmx:Include Namespace={quoteattr(name)}/></edmx:Reference>"
        for name in names
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">'
        f'{references}<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">'
        '<EntityContainer Name="Service" Extends="ServiceRoot.v1_15_0.ServiceContainer"/>'
        "</Schema></edmx:DataServices></edmx:Edmx>"
    )
