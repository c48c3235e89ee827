"""Requests of a fleet service to a real agent over real TLS: carried out, renewed, released, refused.

The agent is ``railwatch up`` on a simulated node, its certificates are those of ``railwatch fleet ca``.
"""

import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent.actuation.client import ActuatorClient
from fleet.agent_client import AgentClient, TlsTransport
from fleet.certificates.authority import Authority
from fleet.certificates.identity import client_context, private_key
from fleet.certificates.tokens import READ, act
from railwatch.run_context import read_status
from rules.fleet.memory import ClaimState, FleetClaim
from rules.fleet.orders import OrderKind, OrderResult
from rules.policy.model import ActionClass
from telemetry.clock import SystemClock
from telemetry.errors import NotPermittedError, TransientError
from telemetry.identity_names import Identity
from tests.integration.running import Node, node_up

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
NODE, FLEET = "node1", "fleet-a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Running node and the address of its control endpoint."""

    node: Node
    port: int
    ca: Path

    def identity(self, stem: str) -> Identity:
        ca = self.ca
        return Identity(authority=ca / "authority.pem", certificate=ca / f"{stem}.pem", key=ca / f"{stem}.key")

    @property
    def token(self) -> str:
        return (self.ca / f"fleet-{FLEET}.token").read_text().strip()

    def wire(self, stem: str = f"fleet-{FLEET}", *, node: str = NODE) -> TlsTransport:
        context = client_context(self.identity(stem))
        return TlsTransport(context, {node: f"127.0.0.1:{self.port}"}, port=1, token=self.token)

    def asker(self, *, term: int = 1, instance: str = "one") -> AgentClient:
        return AgentClient(
            fleet=FLEET,
            key=private_key(self.ca / f"fleet-{FLEET}.key"),
            token=self.token,
            wire=self.wire(),
            clock=SystemClock(),
            term=term,
            instance=instance,
        )

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = read_status(self.node.context.control_status_path).get("counts", {})
        return counts

    def clocks_mhz(self) -> dict[str, float | None]:
        client = ActuatorClient(self.node.context.actuator_socket, timeout_s=60.0)
        held = {action.entity_id: action.read_back for action in client.in_force()}
        client.close()
        return held


def certificates(folder: Path) -> Path:
    clock = SystemClock()
    authority = Authority.begin(folder, clock, name="test")
    authority.issue_node(NODE, clock)
    authority.issue_node("node2", clock)
    authority.issue_fleet(FLEET, clock)
    authority.issue_token(FLEET, (READ, act(ActionClass.CLOCK_CAP), act(ActionClass.POWER_CAP)), clock)
    return folder


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    folder = tmp_path_factory.mktemp("control")
    ca = certificates(folder / "ca")
    assert (ca / "authority.key").stat().st_mode & 0o077 == 0
    settings = {
        "node": {"name": NODE},
        "control": {
            "use": "auto",
            "host": "127.0.0.1",
            "port": 0,
            "authority": str(ca / "authority.pem"),
            "certificate": str(ca / f"node-{NODE}.pem"),
            "key": str(ca / f"node-{NODE}.key"),
            "fleets": [FLEET],
        },
    }
    config = folder / "node.yaml"
    config.write_text(json.dumps(settings))
    options = ("--config", str(config), "--simulate", "v100x4", "--scenario", "healthy")
    with node_up(folder / "data", *options) as node:
        assert node.url
        status = node.context.control_status_path
        port = int(node.until(lambda: read_status(status).get("port"), what="the control endpoint"))
        node.until(lambda: read_status(node.context.clocks_path), what="the clocks that can be set")
        yield Reached(node=node, port=port, ca=ca)


def claim(incident: str = "i-1", ratio: float = 0.66, action: ActionClass = ActionClass.CLOCK_CAP) -> FleetClaim:
    return FleetClaim(
        policy_id="feed-sag-clock-cap",
        incident_id=incident,
        node=NODE,
        rack="r1",
        action=action,
        ratio=ratio,
        lease_s=60.0,
        decision_id=f"feed-sag-clock-cap:{incident}:1",
        begun_ns=SystemClock().utc_ns(),
        state=ClaimState.RESERVED,
        due_ns=1,
        reason="30 nodes on pdu-a sag",
    )


def test_a_cap_reaches_the_gpus_over_tls_and_is_reported_with_before_after_and_who(reached: Reached) -> None:
    asker = reached.asker()
    begun = asker.send(OrderKind.BEGIN, claim())
    assert begun.result is OrderResult.DONE, begun.reason
    assert {(one.found, one.read_back, one.owner) for one in begun.actions} == {
        (None, 1005.0, "fleet:fleet-a")  # before: unset
    }
    assert set(reached.clocks_mhz().values()) == {1005.0}
    assert asker.send(OrderKind.RENEW, claim()).result is OrderResult.DONE
    assert asker.send(OrderKind.END, claim()).result is OrderResult.DONE
    assert reached.clocks_mhz() == {}
    assert asker.send(OrderKind.RENEW, claim()).result is OrderResult.LOST
    reached.node.line(type="decision", rule="fleet:fleet-a", action="clock_cap", verdict="execute")
    reached.node.line(type="action", owner="fleet:fleet-a", state="released")


def test_a_power_limit_is_turned_as_a_clock_is_and_given_back(reached: Reached) -> None:
    capped = claim("i-5", ratio=0.8, action=ActionClass.POWER_CAP)
    asker = reached.asker()
    begun = asker.send(OrderKind.BEGIN, capped)
    assert begun.result is OrderResult.DONE, begun.reason
    assert {(one.found, one.read_back, one.unit) for one in begun.actions} == {(300.0, 240.0, "W")}
    assert asker.send(OrderKind.END, capped).result is OrderResult.DONE
    assert reached.clocks_mhz() == {}


def test_what_the_node_itself_forbids_is_refused_with_the_reason_and_counted(reached: Reached) -> None:
    before = reached.wire().status(NODE)["counts"].get("limits", 0)
    reply = reached.asker().send(OrderKind.BEGIN, claim("i-2", ratio=0.2))
    assert reply.result is OrderResult.REFUSED
    assert "below 40%" in reply.reason
    reached.node.until(lambda: reached.counts().get("limits", 0) == before + 1, what="the counter")
    assert reached.clocks_mhz() == {}
    reported = reached.node.line(
        type="decision", incident_id="fleet:fleet-a:i-2:feed-sag-clock-cap:clock_cap", verdict="refuse"
    )
    assert "below 40%" in reported["reason"]


def test_a_recorded_request_sent_again_is_refused_and_counted(reached: Reached) -> None:
    wire = reached.wire()
    bodies: list[bytes] = []

    @dataclass
    class Listening:
        def send(self, node: str, body: bytes) -> object:
            bodies.append(body)
            return wire.send(node, body)

    asker = replace(reached.asker(), wire=Listening())  # type: ignore[arg-type]
    assert asker.send(OrderKind.END, claim("i-3")).result is OrderResult.DONE
    assert wire.send(NODE, bodies[0]).kind == "replayed"
    changed = bodies[0].replace(b"release", b"renew")
    assert wire.send(NODE, changed).kind == "forged"
    reached.node.until(lambda: reached.counts().get("replayed") and reached.counts().get("forged"), what="the counters")
    wire.close()


def test_a_process_whose_place_was_taken_is_fenced_off(reached: Reached) -> None:
    assert reached.asker(term=5, instance="new").send(OrderKind.END, claim("i-4")).result is OrderResult.DONE
    reply = reached.asker(term=4, instance="old").send(OrderKind.BEGIN, claim("i-4"))
    assert (reply.result, "term 4" in reply.reason) == (OrderResult.REFUSED, True)


def test_no_client_gets_in_without_the_certificate_of_a_service(reached: Reached) -> None:
    address = ("127.0.0.1", reached.port)
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.load_verify_locations(cafile=reached.ca / "authority.pem")
    with (
        socket.create_connection(address, timeout=5) as plain,
        anonymous.wrap_socket(plain, server_hostname=NODE) as secured,
        pytest.raises(OSError, match=r"(?i)certificate required|reset"),
    ):
        secured.recv(100)
    # A node's own certificate asks nothing: it is for servers.
    with pytest.raises((NotPermittedError, TransientError)):
        reached.wire("node-node2").send(NODE, b"{}")
    # The agent has to be the node that is asked, not some other one of the same authority.
    with pytest.raises(NotPermittedError):
        reached.wire(node="node2").send("node2", b"{}")
    assert reached.clocks_mhz() == {}


def test_the_counters_are_read_with_a_token_and_stand_in_the_nodes_own_metrics(reached: Reached) -> None:
    status = reached.wire().status(NODE)
    assert status["node"] == NODE
    reached.node.until(lambda: reached.counts() == reached.wire().status(NODE)["counts"], what="the same counters")
