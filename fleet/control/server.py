"""HTTP server of the control endpoint: mutual TLS, two paths, small bodies and short timeouts.

It uses the server of the standard library, because `Admission` needs the client certificate, which web frameworks do
not pass on. Each connection has a thread, of a small number, and a timeout.
"""

import logging
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from fleet.certificates.identity import Peer, peer_of, server_context
from fleet.control.admission import Admission
from fleet.control.request import ENVELOPE_BYTES_MAX, ControlReply
from telemetry.errors import EnvironmentLacksError, NotPermittedError
from telemetry.identity_names import Identity
from telemetry.json_text import json_bytes

logger = logging.getLogger(__name__)

ASK_PATH = "/control/v1/ask"
STATUS_PATH = "/control/v1/status"
# heuristic: a handful of services with one connection each; further connections are closed.
CONNECTIONS_MAX = 16
# heuristic: a handshake and a request take milliseconds on a network that is fit for a fleet service.
WAIT_S = 5.0


class ControlServer:
    """Control endpoint; listens until it is closed.

    Raises
    ------
    EnvironmentLacksError
        The address is in use, or a certificate cannot be read.
    """

    def __init__(self, admission: Admission, identity: Identity, *, host: str, port: int) -> None:
        context = server_context(identity)
        try:
            self._server = _Listener(host, port, admission, context)
        except OSError as err:
            raise EnvironmentLacksError(f"{host}:{port}: {err.strerror}; expected a free port for control") from err
        self._thread = threading.Thread(target=self._server.serve_forever, name="control", daemon=True)

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start to serve requests."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving and close the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)


class _Listener(HTTPServer):
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, admission: Admission, context: ssl.SSLContext) -> None:
        self.admission, self._context = admission, context
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close it where there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        threading.Thread(target=self._serve, args=(request, client_address), daemon=True).start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        where = str(client_address[0])
        try:
            request.settimeout(WAIT_S)
            try:
                secured = self._context.wrap_socket(request, server_side=True)
            except OSError as err:
                # A peer that disconnects during the handshake has shown no identity.
                if isinstance(err, ssl.SSLError) and not isinstance(err, ssl.SSLEOFError):
                    self.admission.reject_peer(where, err.reason or str(err))
                request.close()
                return
            try:
                self.finish_request(secured, client_address)
            except OSError:
                logger.debug("connection of %s was lost", where)
            finally:
                self.shutdown_request(secured)
        finally:
            self._room.release()

    def server_bind(self) -> None:
        """Bind without a reverse lookup of the address of this machine."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "railwatch"
    sys_version = ""
    timeout = WAIT_S
    server: _Listener

    def do_POST(self) -> None:
        """Handle one request."""
        length = self.headers.get("Content-Length", "")
        if self.path != ASK_PATH or not length.isdecimal() or _is_too_long(length):
            self.close_connection = True
            self._send(404 if self.path != ASK_PATH else 413, b"{}\n")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True  # disconnected in the middle
            return
        peer = self._peer()
        if peer is not None:
            self._send(200, self.server.admission.handle(body, peer).line())

    def do_GET(self) -> None:
        """Return the counters."""
        if self.path != STATUS_PATH:
            self._send(404, b"{}\n")
            return
        peer = self._peer()
        if peer is None:
            return
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        why = self.server.admission.may_read(token, peer)
        if why:
            self._send(403, ControlReply(kind="scope", reason=why).line())
        else:
            self._send(200, json_bytes(self.server.admission.status()) + b"\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's own name
        """Log nothing: `Admission` publishes refusals."""

    def _peer(self) -> Peer | None:
        where = str(self.client_address[0])
        try:
            return peer_of(self.connection.getpeercert(binary_form=True), where=where)
        except NotPermittedError as err:
            self.server.admission.reject_peer(where, str(err))
            self._send(403, ControlReply(kind="forged", reason=str(err)).line())
            return None

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _is_too_long(length: str) -> bool:
    return len(length) > len(str(ENVELOPE_BYTES_MAX)) or int(length) > ENVELOPE_BYTES_MAX
