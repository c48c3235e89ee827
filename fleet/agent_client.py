"""Requests of a fleet service to agents over mutual TLS: each signed, fresh and valid once, several at a time."""

import json
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Protocol

import urllib3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from fleet.control.admission import DONE, EARLIER_LIMITS, RefusalKind
from fleet.control.request import ControlReply, NodeRequest, RequestVerb, sealed
from fleet.control.server import ASK_PATH, STATUS_PATH
from rules.fleet.memory import FleetClaim
from rules.fleet.orders import OrderKind, OrderResult
from rules.limits.fleet import REQUEST_LIFE_S
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import NotPermittedError, RailwatchError, TransientError
from telemetry.record_json import from_json
from telemetry.records import Action

# heuristic: an agent replies within milliseconds, its actuator within a second; a dead one costs this time once.
WAIT_S = 3.0
# heuristic: a reply about 64 GPUs takes 32 KiB; a hostile agent must not fill the memory of the service.
ANSWER_BYTES_MAX = 256 << 10
# heuristic: requests at a time; a tenth of 1,000 nodes takes a second, and 20 s if all of them are dead.
ASKED_AT_ONCE = 16
_VERBS = {OrderKind.BEGIN: RequestVerb.CAP, OrderKind.RENEW: RequestVerb.RENEW, OrderKind.END: RequestVerb.RELEASE}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReply:
    """Result of one order: a reason where it was not carried out, the actions where it was."""

    result: OrderResult
    reason: str = ""
    actions: tuple[Action, ...] = ()


class AgentTransport(Protocol):
    """Carries a signed request to a node; TransientError without a reply, NotPermittedError where TLS is refused."""

    def send(self, node: str, body: bytes) -> ControlReply:
        """Send a request and return the reply."""
        ...


class TlsTransport:
    """Mutual TLS to agents; any thread may use it.

    Parameters
    ----------
    agents
        Addresses as ``host:port`` by node; a node without an address is found by its name and `port`.
    """

    def __init__(self, context: ssl.SSLContext, agents: Mapping[str, str], *, port: int, token: str) -> None:
        self._context, self._agents, self._port, self._token = context, dict(agents), port, token
        self._pools: dict[str, urllib3.HTTPSConnectionPool] = {}

    def send(self, node: str, body: bytes) -> ControlReply:
        """Send a request and return the reply of a node."""
        data = self._exchange(node, "POST", ASK_PATH, body=body)
        try:
            return ControlReply.model_validate_json(data)
        except ValidationError as err:
            raise TransientError(f"{node}: invalid reply") from err

    def status(self, node: str) -> dict[str, Any]:
        """Return the counters of the control endpoint of a node."""
        data = self._exchange(node, "GET", STATUS_PATH, headers={"Authorization": f"Bearer {self._token}"})
        try:
            status: dict[str, Any] = dict(json.loads(data))
        except (ValueError, TypeError) as err:
            raise TransientError(f"{node}: invalid reply") from err
        if "kind" in status:
            raise NotPermittedError(f"{node}: {status.get('words', status['kind'])}")
        return status

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()

    def _exchange(self, node: str, method: str, path: str, **fields: Any) -> bytes:
        try:
            answer = self._pool(node).request(
                method, path, timeout=WAIT_S, retries=False, redirect=False, preload_content=False, **fields
            )
            data = answer.read(ANSWER_BYTES_MAX + 1)
            if len(data) > ANSWER_BYTES_MAX:
                answer.close()
                raise TransientError(f"{node}: reply of more than {ANSWER_BYTES_MAX} bytes")
            answer.release_conn()
        except urllib3.exceptions.SSLError as err:
            raise NotPermittedError(f"{node}: {err}") from err
        except urllib3.exceptions.HTTPError as err:
            raise TransientError(f"{node}: {type(err).__name__}") from err
        return data

    def _pool(self, node: str) -> urllib3.HTTPSConnectionPool:
        if node not in self._pools:
            host, port = _split(self._agents.get(node, node), self._port)
            # The certificate has to name the node, whatever its address.
            self._pools[node] = urllib3.HTTPSConnectionPool(
                host, port, ssl_context=self._context, server_hostname=node, assert_hostname=node, maxsize=1
            )
        return self._pools[node]


def _split(address: str, port: int) -> tuple[str, int]:
    host, _, given = address.rpartition(":")
    if host and given.isdecimal():
        return host.strip("[]"), int(given)
    return address.strip("[]"), port


@dataclass(slots=True, kw_only=True)
class AgentClient:
    """Sends orders as signed requests; `term` and `instance` identify start and process of the service."""

    fleet: str
    key: Ed25519PrivateKey
    token: str
    wire: AgentTransport
    clock: Clock
    term: int
    instance: str
    life_s: float = REQUEST_LIFE_S

    def send_all(self, orders: Sequence[tuple[OrderKind, FleetClaim]]) -> tuple[OrderReply, ...]:
        """Send orders to nodes, several at a time, and return the result of each."""
        if not orders:
            return ()
        with ThreadPoolExecutor(max_workers=min(ASKED_AT_ONCE, len(orders))) as pool:
            return tuple(pool.map(lambda order: self.send(*order), orders))

    def send(self, order_kind: OrderKind, claim: FleetClaim) -> OrderReply:
        """Send one order to a node and return its result."""
        now_ns = self.clock.utc_ns()
        # An action that begins was counted when it was decided, and its lifetime starts there.
        counted_ns = claim.begun_ns if order_kind is OrderKind.BEGIN else now_ns
        request = NodeRequest(
            node=claim.node,
            fleet=self.fleet,
            term=self.term,
            instance=self.instance,
            do=_VERBS[order_kind],
            action=claim.action,
            incident_id=claim.incident_id,
            policy_id=claim.policy_id,
            decision_id=claim.decision_id,
            ratio=claim.ratio if order_kind is OrderKind.BEGIN else None,
            lease_s=claim.lease_s,
            reason=claim.reason or claim.policy_id,
            issued_ns=now_ns,
            expires_ns=max(counted_ns, 1) + round(self.life_s * NS_PER_S),
            nonce=token_hex(16),
        )
        try:
            answer = self.wire.send(claim.node, sealed(request, key=self.key, token=self.token))
        except TransientError as err:
            return OrderReply(result=OrderResult.SILENT, reason=str(err))
        except RailwatchError as err:
            refused = OrderResult.REFUSED if order_kind is OrderKind.BEGIN else OrderResult.SILENT
            return OrderReply(result=refused, reason=str(err))
        return order_reply(answer, order_kind)


def order_reply(answer: ControlReply, order_kind: OrderKind) -> OrderReply:
    """Return the reply of an agent as the result of an order."""
    if answer.kind == DONE:
        actions = tuple(one for one in map(from_json, answer.actions) if isinstance(one, Action))
        return OrderReply(result=OrderResult.DONE, actions=actions)
    reason = f"{answer.kind}: {answer.reason}"
    if order_kind is OrderKind.BEGIN and answer.kind != RefusalKind.FAILED:
        return OrderReply(result=OrderResult.REFUSED, reason=reason)
    # An action in force is not abandoned for lack of a reply: the request is sent again.
    lost = order_kind is OrderKind.RENEW and answer.kind in (RefusalKind.LIMITS, EARLIER_LIMITS)
    return OrderReply(result=OrderResult.LOST if lost else OrderResult.SILENT, reason=reason)
