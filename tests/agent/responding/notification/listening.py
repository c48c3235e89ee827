"""Web servers for tests that record what they are sent, and answer what a test sets."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import on_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """Request that was received."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True, kw_only=True)
class Listener:
    """Requests that were received, and the statuses of the replies in turn, then 200."""

    port: int = 0
    posted: list[Posted] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, listener: Listener, *of_the_connection: Any) -> None:
        self.listener = listener
        super().__init__(*of_the_connection)

    def do_POST(self) -> None:
        listener = self.listener
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        listener.posted.append(Posted(path=self.path, headers=dict(self.headers.items()), body=body))
        self.send_response(listener.answers.pop(0) if listener.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Report nothing."""


@contextmanager
def listening() -> Iterator[Listener]:
    """Serve on loopback until the block ends."""
    listener = Listener()
    with on_loopback(partial(_Handler, listener)) as listener.port:
        yield listener
