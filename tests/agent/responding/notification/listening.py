"""Web servers for tests that record what they are sent, and answer what they are told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True, kw_only=True)
class Listener:
    """What came, and what is answered: the statuses in turn, then 200."""

    port: int
    posted: list[Posted] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        listener = self.server.listener
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        listener.posted.append(Posted(path=self.path, headers=dict(self.headers.items()), body=body))
        self.send_response(listener.answers.pop(0) if listener.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.listener = Listener(port=int(self.server_address[1]))


@contextmanager
def listening() -> Iterator[Listener]:
    """Serve on loopback until the block ends."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.listener
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5.0)
