"""Redfish services for tests: one made of a dictionary, over TLS, with sessions; and its certificate."""

import base64
import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from agent.collectors.bmc.redfish_client import ROOT
from tests.loopback import on_loopback

USER, PASSWORD = "monitor", "s3cret"
SESSIONS = f"{ROOT}SessionService/Sessions"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dataclass(slots=True)
class Tree:
    """Responses of the service: JSON objects, or raw bytes; `status` and `etags` by path."""

    resources: dict[str, Any] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    wants_login: bool = False
    makes_sessions: bool = True
    tokens: set[str] = field(default_factory=set)
    requests_seen: list[tuple[str, str]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)
    logins: int = 0
    hold: threading.Event | None = None
    actions: dict[str, Callable[[Any], int]] = field(default_factory=dict)


class _Handler(BaseHTTPRequestHandler):
    """Answers out of the tree of its server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes

    def __init__(self, tree: Tree, *of_the_connection: Any) -> None:
        self.tree = tree
        super().__init__(*of_the_connection)

    def do_GET(self) -> None:
        tree = self.tree
        tree.requests_seen.append(("GET", self.path))
        tree.connections.add(self.client_address)
        if tree.hold is not None:
            tree.hold.wait(10.0)
        headers = tree.headers.get(self.path, {})
        found = tree.resources.get(self.path)
        if tree.wants_login and self.path != ROOT and not self._has_session():
            self._respond(401, {"error": {}})
        elif "ETag" in headers and self.headers.get("If-None-Match") == headers["ETag"]:
            self._respond(304, b"", headers)
        else:
            status = tree.status.get(self.path, 200 if found is not None else 404)
            self._respond(status, {} if found is None else found, headers)

    def do_POST(self) -> None:
        tree = self.tree
        tree.requests_seen.append(("POST", self.path))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path in tree.actions:
            self._respond(tree.actions[self.path](body) if not tree.wants_login or self._has_session() else 401, {})
        elif self.path != SESSIONS or not tree.makes_sessions:
            self._respond(405, {})
        elif body != {"UserName": USER, "Password": PASSWORD}:
            self._respond(401, {})
        else:
            tree.logins += 1
            token = f"token{tree.logins}"
            tree.tokens.add(token)
            self._respond(201, {}, {"X-Auth-Token": token, "Location": f"{SESSIONS}/{tree.logins}"})

    def do_DELETE(self) -> None:
        self.tree.requests_seen.append(("DELETE", self.path))
        self.tree.tokens.discard(self.headers.get("X-Auth-Token", ""))
        self._respond(204, b"")

    def _has_session(self) -> bool:
        return self.headers.get("X-Auth-Token") in self.tree.tokens or (
            self.headers.get("Authorization") == BASIC and not self.tree.makes_sessions
        )

    def _respond(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):  # a client that has seen enough hangs up
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Report nothing."""


@contextmanager
def served(tree: Tree, certificate: Path | None = None) -> Iterator[int]:
    """Serve a tree on loopback, with TLS where there is a certificate; yield the port."""
    with on_loopback(partial(_Handler, tree), certificate) as port:
        try:
            yield port
        finally:
            if tree.hold is not None:
                tree.hold.set()


def make_certificate(folder: Path) -> Path:
    """Return a file with a key and a certificate for 127.0.0.1 that signs itself."""
    path, key = folder / "bmc.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=bmc", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*command, *names, "-keyout", key, "-out", path], check=True, capture_output=True, timeout=20)
    path.write_text(path.read_text(encoding="ascii") + key.read_text(encoding="ascii"), encoding="ascii")
    return path
