"""Store on loopback that responds as a test sets it, and keeps what it received."""

import contextlib
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.loopback import on_loopback

Decide = Callable[[bytes], tuple[int, str]]


@dataclass(slots=True)
class StubStore:
    """`decide` gives status and text for the body of a write; queries are always answered with an empty result."""

    url: str = ""
    decide: Decide = lambda _body: (204, "")
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    stored: list[bytes] = field(default_factory=list)

    def lines(self) -> list[bytes]:
        return b"".join(self.stored).splitlines()


@contextlib.contextmanager
def stub_store() -> Iterator[StubStore]:
    store = StubStore()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            path = urllib.parse.urlsplit(self.path).path
            status, text = 200, '{"results":[]}'
            if path.endswith("/write"):
                store.requests.append((self.path, body))
                status, text = store.decide(body)
                if status == 204:
                    store.stored.append(body)
            payload = text.encode()
            self.send_response(status)
            for name, value in store.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    with on_loopback(Handler) as port:
        store.url = f"http://127.0.0.1:{port}"
        yield store
