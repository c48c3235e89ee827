"""The Redfish service over HTTP on loopback, in a thread of its own."""

import socket
import threading

import uvicorn
from fastapi import FastAPI

from simulator.served.board.redfish.answers import METHODS, Answers
from simulator.served.board.redfish.resource import ROOT
from simulator.served.board.redfish.sessions import Sessions
from simulator.served.board.redfish.tree import RedfishTree
from telemetry.errors import EnvironmentLacksError

_END_S = 3.0


class RedfishService:
    """A running service: a thread of its own.

    Parameters
    ----------
    port
        TCP port on loopback; 0 takes a free one.
    login_needed
        Whether a client must log in, by HTTP basic or a session; else whoever asks is answered.

    Raises
    ------
    EnvironmentLacksError
        The port is taken.
    """

    def __init__(self, tree: RedfishTree, sessions: Sessions, *, port: int = 0, login_needed: bool = False) -> None:
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
        answers = Answers(tree, sessions, login_needed=login_needed)
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
