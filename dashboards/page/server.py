"""The page's web server: one thread beside the service, on a socket that was bound before anything else started."""

import asyncio
import logging
import socket
import threading

import uvicorn
from fastapi import FastAPI

from dashboards.page.live import pause
from telemetry.errors import EnvironmentLacksError

log = logging.getLogger(__name__)

_STOP_WITHIN_S = 5
_DATE_EVERY_S = 1.0


def bind(host: str, port: int) -> socket.socket:
    """Bind the page's address; port 0 takes a free one.

    Raises
    ------
    EnvironmentLacksError
        The port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host.strip("[]"), port))
        sock.listen(128)
    except OSError as err:
        sock.close()
        raise EnvironmentLacksError(f"page: cannot listen on {host} port {port}: {err.strerror or err}") from err
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the address under which a browser on this machine finds the page."""
    host, port = sock.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/"


class PageServer:
    """Serves one application on one bound socket from a thread of its own."""

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        self._app = app
        self._sock = sock
        self._loop: asyncio.AbstractEventLoop | None = None
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # an address may carry a token
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)

    @property
    def url(self) -> str:
        """URL for a browser on this machine."""
        return url_of(self._sock)

    def start(self) -> None:
        """Start serving; returns at once, connections wait in the socket until the server runs."""
        self._thread.start()

    def stop(self) -> None:
        """End live streams, finish running responses, and close the socket."""
        loop = self._loop
        self._server.should_exit = True
        if loop is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(self._app.state.closing.set)
        self._thread.join(_STOP_WITHIN_S)
        if self._thread.is_alive():
            log.warning("the page did not stop within %s s", _STOP_WITHIN_S)
        self._sock.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        """Serve as `uvicorn.Server.serve` does, which wakes ten times a second to look for its end."""
        self._loop = asyncio.get_running_loop()
        server, closing = self._server, self._app.state.closing
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup(sockets=[self._sock])
        while not server.should_exit:
            await server.on_tick(0)  # renews the Date of the replies
            await pause(closing, _DATE_EVERY_S)
        await server.shutdown(sockets=[self._sock])
