"""Replies of agents are bounded in size, and an invalid one is an error."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fleet.agent_client import ANSWER_BYTES_MAX, TlsTransport, order_reply
from fleet.certificates.authority import Authority
from fleet.certificates.identity import client_context, server_context
from fleet.control.request import ControlReply
from rules.fleet.orders import OrderKind, OrderResult
from telemetry.clock import SystemClock
from telemetry.errors import TransientError
from telemetry.identity_names import Identity


class Odd(BaseHTTPRequestHandler):
    """Hostile agent."""

    protocol_version = "HTTP/1.1"
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET  # noqa: N815 -- the library's own name

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TlsTransport]:
    authority = Authority.begin(tmp_path, SystemClock(), name="test")
    authority.issue_node("node1", SystemClock())
    authority.issue_fleet("fleet-a", SystemClock())

    def identity(stem: str) -> Identity:
        return Identity(
            authority=tmp_path / "authority.pem", certificate=tmp_path / f"{stem}.pem", key=tmp_path / f"{stem}.key"
        )

    server = HTTPServer(("127.0.0.1", 0), Odd)
    server.socket = server_context(identity("node-node1")).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    context = client_context(identity("fleet-fleet-a"))
    made = TlsTransport(context, {"node1": f"127.0.0.1:{server.server_address[1]}"}, port=1, token="t")
    yield made
    made.close()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b"1", b"x" * (ANSWER_BYTES_MAX + 1)])
def test_an_answer_that_is_none_or_too_long_is_reported_as_no_answer(
    wire: TlsTransport, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "body", body)
    with pytest.raises(TransientError, match="node1: "):
        wire.status("node1")
    with pytest.raises(TransientError, match="node1: "):
        wire.send("node1", b"{}")


@pytest.mark.parametrize(
    ("kind", "result"),
    [("limits", OrderResult.LOST), ("rails", OrderResult.LOST), ("failed", OrderResult.SILENT)],
)
def test_a_claim_that_an_agent_refuses_to_renew_is_lost_also_by_the_earlier_name_of_its_limits(
    kind: str, result: OrderResult
) -> None:
    assert order_reply(ControlReply(kind=kind, reason="below 40%"), OrderKind.RENEW).result is result
