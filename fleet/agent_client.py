"""Asks agents over TLS: each request signed, fresh and used once; many at a time, none for long."""

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

from fleet.control.admission import DONE, RefusalKind
from fleet.control.request import ControlReply, NodeRequest, RequestVerb, sealed
from fleet.control.server import ASK_PATH, STATUS_PATH
from rules.fleet.memory import FleetClaim
from rules.fleet.orders import OrderKind, OrderResult
from rules.limits.fleet import REQUEST_LIFE_S
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import NotPermittedError, RailwatchError, TransientError
from telemetry.records import Action, from_json

# Heuristic: an agent answers within milliseconds, its actuator within a second; a dead one costs this much, once.
WAIT_S = 3.0
# An answer about 64 GPUs takes 32 KiB; an agent that somebody else has taken over fills no memory here. heuristic.
ANSWER_BYTES_MAX = 256 << 10
# Heuristic: so many agents are asked at a time; a tenth of 1,000 nodes takes a second, and 20 s if all are dead.
ASKED_AT_ONCE = 16
_VERBS = {OrderKind.BEGIN: RequestVerb.CAP, OrderKind.RENEW: RequestVerb.RENEW, OrderKind.END: RequestVerb.RELEASE}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReply:
    """What came of one request."""

    result: OrderResult
    words: str = ""
    actions: tuple[Action, ...] = ()


class AgentTransport(Protocol):
    """Carries a sealed request to a node; TransientError where nobody answered, NotPermittedError where not let in."""

    def send(self, node: str, body: bytes) -> ControlReply:
        """Return the answer."""
        ...


class TlsTransport:
    """Talks to agents over mutual TLS; any thread may use it.

    Parameters
    ----------
    agents
        Addresses as ``host:port`` by node; a node that is not named is found under its own name and `port`.
    """

    def __init__(self, context: ssl.SSLContext, agents: Mapping[str, str], *, port: int, token: str) -> None:
        self._context, self._agents, self._port, self._token = context, dict(agents), port, token
        self._pools: dict[str, urllib3.HTTPSConnectionPool] = {}

    def send(self, node: str, body: bytes) -> ControlReply:
        """Return the answer of a node."""
        return self._answer(node, "POST", ASK_PATH, body=body)

    def status(self, node: str) -> dict[str, Any]:
        """Return the counters of a node's control endpoint."""
        data = self._exchange(node, "GET", STATUS_PATH, headers={"Authorization": f"Bearer {self._token}"})
        try:
            status: dict[str, Any] = dict(json.loads(data))
        except (ValueError, TypeError) as err:
            raise TransientError(f"{node}: the answer cannot be read") from err
        if "kind" in status:
            raise NotPermittedError(f"{node}: {status.get('words', status['kind'])}")
        return status

    def close(self) -> None:
        """Let connections go."""
        for pool in self._pools.values():
            pool.close()

    def _answer(self, node: str, method: str, path: str, *, body: bytes) -> ControlReply:
        data = self._exchange(node, method, path, body=body)
        try:
            return ControlReply.model_validate_json(data)
        except ValidationError as err:
            raise TransientError(f"{node}: the answer cannot be read") from err

    def _exchange(self, node: str, method: str, path: str, **fields: Any) -> bytes:
        try:
            answer = self._pool(node).request(
                method, path, timeout=WAIT_S, retries=False, redirect=False, preload_content=False, **fields
            )
            data = answer.read(ANSWER_BYTES_MAX + 1)
            if len(data) > ANSWER_BYTES_MAX:
                answer.close()
                raise TransientError(f"{node}: an answer of more than {ANSWER_BYTES_MAX} bytes")
            answer.release_conn()
        except urllib3.exceptions.SSLError as err:
            raise NotPermittedError(f"{node}: {err}") from err
        except urllib3.exceptions.HTTPError as err:
            raise TransientError(f"{node}: {type(err).__name__}") from err
        return data

    def _pool(self, node: str) -> urllib3.HTTPSConnectionPool:
        if node not in self._pools:
            host, port = _split(self._agents.get(node, node), self._port)
            # Whatever the address, the certificate has to name the node.
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
    """Makes requests of orders. `term` and `instance` say which process of which start of the service asks."""

    fleet: str
    key: Ed25519PrivateKey
    token: str
    wire: AgentTransport
    clock: Clock
    term: int
    instance: str
    life_s: float = REQUEST_LIFE_S

    def ask_all(self, orders: Sequence[tuple[OrderKind, FleetClaim]]) -> tuple[OrderReply, ...]:
        """Carry out orders for nodes, several at a time; gives what came of each."""
        if not orders:
            return ()
        with ThreadPoolExecutor(max_workers=min(ASKED_AT_ONCE, len(orders))) as pool:
            return tuple(pool.map(lambda order: self.ask(*order), orders))

    def ask(self, order_kind: OrderKind, claim: FleetClaim) -> OrderReply:
        """Carry out one order for a node."""
        now_ns = self.clock.utc_ns()
        # What begins has been counted as begun, and lives from then on.
        counted_ns = claim.begun_ns if order_kind is OrderKind.BEGIN else now_ns
        ask = NodeRequest(
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
            answer = self.wire.send(claim.node, sealed(ask, key=self.key, token=self.token))
        except TransientError as err:
            return OrderReply(result=OrderResult.SILENT, words=str(err))
        except RailwatchError as err:
            refused = OrderResult.REFUSED if order_kind is OrderKind.BEGIN else OrderResult.SILENT
            return OrderReply(result=refused, words=str(err))
        return _reply(answer, order_kind)


def _reply(answer: ControlReply, order_kind: OrderKind) -> OrderReply:
    if answer.kind == DONE:
        actions = tuple(one for one in map(from_json, answer.actions) if isinstance(one, Action))
        return OrderReply(result=OrderResult.DONE, actions=actions)
    words = f"{answer.kind}: {answer.words}"
    if order_kind is OrderKind.BEGIN and answer.kind != RefusalKind.FAILED:
        return OrderReply(result=OrderResult.REFUSED, words=words)
    # What stands there is not given up because somebody did not listen: it is asked again.
    lost = order_kind is OrderKind.RENEW and answer.kind == RefusalKind.RAILS
    return OrderReply(result=OrderResult.LOST if lost else OrderResult.SILENT, words=words)
