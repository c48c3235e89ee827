"""A web server on loopback for tests, with TLS where it is asked for; what it answers is the handler's matter."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT_S


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Report nothing: a client that does not trust our certificate, or hangs up, is one of the cases."""


@contextmanager
def on_loopback(handler: Callable[..., BaseHTTPRequestHandler], certificate: Path | None = None) -> Iterator[int]:
    """Serve until the block ends; return the port."""
    server = _Server(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)
