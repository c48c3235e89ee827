"""The page's web server: one thread beside the service, on a socket that was bound before anything else started."""

import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from telemetry.errors import EnvironmentLacksError

if TYPE_CHECKING:
    from fastapi import FastAPI

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
    """Serves one application on one bound socket from a thread of its own.

    Application and web framework are loaded with the first connection: 20 MiB that a node without a viewer saves. If
    they fail then, the process is requested to end, so that its supervisor sees it and starts it again.

    Raises
    ------
    EnvironmentLacksError
        The web framework is not installed.
    """

    def __init__(self, make_app: "Callable[[], FastAPI]", sock: socket.socket) -> None:
        if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
            raise EnvironmentLacksError(f"page: {' and '.join(missing)} not installed; install railwatch again")
        self._make_app = make_app
        self._sock = sock
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)

    @property
    def url(self) -> str:
        """URL for a browser on this machine."""
        return url_of(self._sock)

    def start(self) -> None:
        """Start serving; returns at once, connections wait in the socket until the server runs."""
        self._thread.start()

    def stop(self) -> None:
        """End live streams, finish running responses, and close the socket; stopping twice is harmless."""
        if self._stop_fd < 0:
            return
        os.eventfd_write(self._stop_fd, 1)
        self._thread.join(_STOP_WITHIN_S)
        if self._thread.is_alive():
            log.warning("the page did not stop within %s s", _STOP_WITHIN_S)
        else:
            os.close(self._stop_fd)
            self._stop_fd = -1
        self._sock.close()

    def _run(self) -> None:
        poller = select.poll()
        for descriptor in (self._sock.fileno(), self._stop_fd):
            poller.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poller.poll()}
        if self._stop_fd not in ready:
            import asyncio  # noqa: PLC0415 -- see above

            try:
                asyncio.run(self._serve())
            except Exception:
                log.exception("page failed; ending this process")
                os.kill(os.getpid(), signal.SIGTERM)

    async def _serve(self) -> None:
        """Serve as `uvicorn.Server.serve` does, which wakes ten times a second to look for its end."""
        import asyncio  # noqa: PLC0415 -- see above

        import uvicorn  # noqa: PLC0415 -- see above

        from dashboards.page.live import pause  # noqa: PLC0415 -- see above

        app = self._make_app()
        closing: asyncio.Event = app.state.closing
        loop = asyncio.get_running_loop()
        loop.add_reader(self._stop_fd, closing.set)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # an address may carry a token
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[self._sock])
        while not closing.is_set():
            await server.on_tick(0)  # renews the Date of the replies
            await pause(closing, _DATE_EVERY_S)
        loop.remove_reader(self._stop_fd)
        await server.shutdown(sockets=[self._sock])
