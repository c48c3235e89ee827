"""Admission of requests of fleet services: identity, scope, freshness, and the limits of the node itself.

They are checked in that order, and each refusal is counted and published. An admitted request goes to the actuator as
one of the guard does: it journals, writes, reads back and holds the lease. A request that is not authentic never
reaches the limits.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agent.actuation.claims import CapRequest, GpuTarget
from fleet.certificates.identity import Peer
from fleet.certificates.tokens import READ, act, read_token
from fleet.control.node_limits import NodeState, refusal, setting_of, targets_of
from fleet.control.replay_protection import ReplayProtection
from fleet.control.request import (
    ControlReply,
    Envelope,
    NodeRequest,
    RequestVerb,
    is_signed,
    read_envelope,
    read_request,
)
from rules.caps.knobs import VERBS
from rules.limits.node import NodeLimits
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.gpu import KnobKind
from telemetry.identity_names import printable
from telemetry.record_json import to_json
from telemetry.records import Action, ActionState, Decision, Event, EventKind, Mode, Severity, Verdict

DONE = "done"
# heuristic: a flood of requests must not fill the disk; the counters still count all of them.
EVENTS_PER_MINUTE = 30
_MINUTE_S = 60.0


# The name of `RefusalKind.LIMITS` in replies of agents of earlier releases.
EARLIER_LIMITS = "rails"


class RefusalKind(StrEnum):
    """Why a request was not carried out."""

    MALFORMED = "malformed"
    FORGED = "forged"
    SCOPE = "scope"
    STALE = "stale"
    FENCED = "fenced"
    REPLAYED = "replayed"
    LIMITS = "limits"
    FAILED = "failed"


class Actuator(Protocol):
    """Actuator process behind its client, or a fake."""

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Hold a knob of the GPUs of a request."""
        ...

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        """Renew the leases of an incident."""
        ...

    def release_incident(self, incident_id: str, *, reason: str) -> tuple[Action, ...]:
        """Release every claim of an incident."""
        ...

    def in_force(self) -> tuple[Action, ...]:
        """Return the newest action of every claim that is in force."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """Services that a node accepts requests from, and the limits on these requests.

    Parameters
    ----------
    fleets
        Ids of the services.
    revoked
        Ids of revoked tokens.
    skew_s
        Largest difference between the clocks of service and node.
    life_max_s
        Longest lifetime of a request, for which nonces are kept.
    """

    node: str
    fleets: frozenset[str]
    authority: Ed25519PublicKey
    limits: NodeLimits
    revoked: frozenset[str] = frozenset()
    skew_s: float = 5.0
    life_max_s: float = 60.0
    lease_max_s: float = 600.0


class RefusedError(Exception):
    """Refused request, with the kind of refusal and the reason."""

    def __init__(self, kind: RefusalKind, reason: str) -> None:
        self.kind = kind
        super().__init__(reason)


@dataclass(slots=True)
class Admission:
    """Checks requests and carries them out; any thread may call it, one request at a time.

    Parameters
    ----------
    read_state
        Returns the state of the node, without the claims and actions that are known here.
    publish
        Takes records: a decision for each request of a service, an event for a request of an unknown sender.
    """

    settings: AdmissionSettings
    actuator: Actuator
    seen: ReplayProtection
    clock: Clock
    read_state: Callable[[], NodeState]
    publish: Callable[[Decision | Event], None]
    counts: Counter[str] = field(default_factory=Counter)
    _events_s: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, body: bytes, peer: Peer) -> ControlReply:
        """Check one request of a peer, carry it out, and return the reply."""
        with self._lock:
            request: NodeRequest | None = None
            try:
                request = self._authentic(body, peer)
                actions = self._carried_out(request)
            except RefusedError as err:
                return self._refuse(err, request, peer)
            self.counts[DONE] += 1
            return ControlReply(kind=DONE, actions=tuple(to_json(action) for action in actions))

    def reject_peer(self, where: str, reason: str) -> None:
        """Count and report a peer without a valid certificate."""
        with self._lock:
            self.counts[RefusalKind.FORGED] += 1
            self._report_unknown(RefusalKind.FORGED, where, reason)

    def may_read(self, token: str, peer: Peer) -> str:
        """Return the reason why a service may not read the counters, empty if it may."""
        try:
            return self._unknown(peer) or self._out_of_scope(token, peer, READ)
        except RefusedError as err:
            return str(err)

    def status(self) -> dict[str, object]:
        """Return the counters and the newest term of each service."""
        terms = {fleet: term for fleet, (term, _) in self.seen.terms.items()}
        return {"node": self.settings.node, "counts": dict(self.counts), "terms": terms}

    def _authentic(self, body: bytes, peer: Peer) -> NodeRequest:
        """Return the request if it is signed, in scope, fresh and not a replay; RefusedError otherwise."""
        try:
            envelope = read_envelope(body)
        except ValueError as err:
            raise RefusedError(RefusalKind.MALFORMED, str(err)) from err
        if unknown := self._unknown(peer):
            raise RefusedError(RefusalKind.FORGED, unknown)
        if not is_signed(envelope, peer.key):
            raise RefusedError(RefusalKind.FORGED, "the signature is not by the key of the certificate")
        request = self._meant(envelope, peer)
        if out_of_scope := self._out_of_scope(envelope.token, peer, act(request.action)):
            raise RefusedError(RefusalKind.SCOPE, out_of_scope)
        now_ns = self.clock.utc_ns()
        if stale := self._stale(request, now_ns):
            raise RefusedError(RefusalKind.STALE, stale)
        if fenced := self.seen.fenced(request):
            raise RefusedError(RefusalKind.FENCED, fenced)
        if self.seen.replayed(request):
            raise RefusedError(RefusalKind.REPLAYED, f"request {request.nonce} was received before, or may have been")
        try:
            self.seen.take(request, forget_before_ns=now_ns - self._skew_ns)
        except TransientError as err:
            raise RefusedError(RefusalKind.FAILED, str(err)) from err
        return request

    @property
    def _skew_ns(self) -> int:
        return round(self.settings.skew_s * NS_PER_S)

    def _unknown(self, peer: Peer) -> str:
        return "" if peer.fleet in self.settings.fleets else f"{peer.fleet} is not in control.fleets"

    def _meant(self, envelope: Envelope, peer: Peer) -> NodeRequest:
        try:
            request = read_request(envelope)
        except ValueError as err:
            raise RefusedError(RefusalKind.MALFORMED, str(err)) from err
        if request.fleet != peer.fleet:
            raise RefusedError(RefusalKind.FORGED, f"{peer.fleet} sent a request of {request.fleet}")
        if request.node != self.settings.node:
            raise RefusedError(RefusalKind.FORGED, f"addressed to node {request.node}")
        return request

    def _out_of_scope(self, text: str, peer: Peer, scope: str) -> str:
        try:
            token = read_token(text, self.settings.authority)
        except ValueError as err:
            raise RefusedError(RefusalKind.FORGED, str(err)) from err
        if token.id in self.settings.revoked:
            return f"token {token.id} is revoked"
        return token.refusal(fleet=peer.fleet, scope=scope, now_ns=self.clock.utc_ns())

    def _stale(self, request: NodeRequest, now_ns: int) -> str:
        if request.issued_ns > now_ns + self._skew_ns:
            return f"issued {(request.issued_ns - now_ns) / NS_PER_S:.1f} s ahead of this clock"
        if request.expires_ns - request.issued_ns > self.settings.life_max_s * NS_PER_S:
            return f"valid for longer than {self.settings.life_max_s:g} s"
        if now_ns >= request.expires_ns:
            return f"expired {(now_ns - request.expires_ns) / NS_PER_S:.1f} s ago"
        return ""

    def _carried_out(self, request: NodeRequest) -> tuple[Action, ...]:
        try:
            if request.do is RequestVerb.RELEASE:
                actions = self.actuator.release_incident(request.claim_id, reason=request.reason)
            elif request.do is RequestVerb.RENEW:
                actions = self._renewed(request)
            else:
                actions = self._capped(request)
        except ActionRefusedError as err:
            raise RefusedError(RefusalKind.LIMITS, str(err)) from err
        except TransientError as err:
            raise RefusedError(RefusalKind.FAILED, str(err)) from err
        if request.do is not RequestVerb.RENEW:
            self.publish(self._decision(request, Verdict.EXECUTE, request.reason))
        return actions

    def _renewed(self, request: NodeRequest) -> tuple[Action, ...]:
        if request.lease_s > self.settings.lease_max_s:
            raise RefusedError(
                RefusalKind.LIMITS, f"a lease of {request.lease_s:g} s, at most {self.settings.lease_max_s:g} s"
            )
        actions = self.actuator.renew(request.claim_id, lease_s=request.lease_s)
        if not actions:
            raise RefusedError(RefusalKind.LIMITS, f"{request.claim_id} has no claim here")
        return actions

    def _capped(self, request: NodeRequest) -> tuple[Action, ...]:
        now_ns = self.clock.utc_ns()
        state = self._state(now_ns)
        if reason := refusal(
            request, state, self.settings.limits, lease_max_s=self.settings.lease_max_s, now_ns=now_ns
        ):
            raise RefusedError(RefusalKind.LIMITS, reason)
        if request.claim_id not in state.claims:
            self.seen.note_action(request.action, now_ns)
        # A request that expired while it waited for the disk is not begun: the service no longer counts it.
        if stale := self._stale(request, self.clock.utc_ns()):
            raise RefusedError(RefusalKind.STALE, stale)
        by_setting: dict[float, list[str]] = {}
        for target in targets_of(request, state):
            by_setting.setdefault(setting_of(request, target, state), []).append(target)
        actions: list[Action] = []
        for setting, targets in by_setting.items():
            actions += self.actuator.apply(_request(request, targets, setting))
        if actions and all(action.state is ActionState.REFUSED for action in actions):
            raise RefusedError(RefusalKind.LIMITS, actions[0].reason)
        return tuple(actions)

    def _state(self, now_ns: int) -> NodeState:
        state = self.read_state()
        held = self.actuator.in_force()
        return NodeState(
            settings=state.settings,
            breaker=state.breaker,
            silence=state.silence,
            capped=frozenset(
                action.entity_id
                for action in held
                if action.mode is Mode.ENFORCE and action.knob_kind is not KnobKind.FAN  # a held fan caps nothing
            ),
            claims=frozenset(action.incident_id for action in held),
            acted_ns=(*state.acted_ns, *self.seen.acted_ns(now_ns)),
        )

    def _refuse(self, err: RefusedError, request: NodeRequest | None, peer: Peer) -> ControlReply:
        self.counts[err.kind] += 1
        if request is None:
            self._report_unknown(err.kind, f"{peer.fleet} at {peer.where}", str(err))
        elif request.do is not RequestVerb.RENEW or err.kind is not RefusalKind.FAILED:
            self.publish(self._decision(request, Verdict.REFUSE, f"{err.kind}: {err}"))
        return ControlReply(kind=err.kind, reason=str(err))

    def _report_unknown(self, kind: RefusalKind, sender: str, reason: str) -> None:
        now_s, now_ns = self.clock.monotonic_s(), self.clock.utc_ns()
        self._events_s = [event_s for event_s in self._events_s if now_s - event_s < _MINUTE_S]
        if len(self._events_s) >= EVENTS_PER_MINUTE:
            return
        self._events_s.append(now_s)
        self.publish(
            Event(
                id=f"control:{kind}:{now_ns}",
                time_ns=now_ns,
                kind=EventKind.CONTROL,
                entity_id=f"node:{self.settings.node}",
                code=None,
                severity=Severity.WARNING,
                # Text of an unknown sender must not control the terminal of the reader.
                message=printable(f"request of {sender} refused as {kind}: {reason}")[:500],
                sources=("control",),
            )
        )

    def _decision(self, request: NodeRequest, verdict: Verdict, reason: str) -> Decision:
        return Decision(
            id=request.decision_id,
            time_ns=self.clock.utc_ns(),
            rule=request.owner,
            incident_id=request.claim_id,
            action=_verb(request),
            targets=request.targets or (f"node:{request.node}",),
            knob=request.knob,
            setting=request.setting,
            lease_s=request.lease_s,
            mode=self.settings.limits.mode(request.action, Mode.ENFORCE),
            verdict=verdict,
            reason=reason,
        )


def _verb(request: NodeRequest) -> str:
    """Return the verb of the decision about a request."""
    if request.knob is None:
        return request.action.value
    verbs = VERBS[request.knob]
    return (verbs.release if request.do is RequestVerb.RELEASE else verbs.tighten).value


def _request(request: NodeRequest, targets: list[str], setting: float) -> CapRequest:
    return CapRequest(
        incident_id=request.claim_id,
        decision_id=request.decision_id,
        gpus=tuple(GpuTarget(entity_id=target, uuid=target.partition(":")[2]) for target in targets),
        kind=KnobKind(request.action.value),
        setting=setting,
        lease_s=request.lease_s,
        owner=request.owner,
        mode=Mode.ENFORCE,
        reason=request.reason,
    )
