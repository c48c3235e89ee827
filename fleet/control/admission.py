"""Where requests of fleet services are decided: who, with which right, fresh or not, allowed by the node's own rails.

In that order, and each refusal is counted and told. Only then the actuator is asked, as the guard asks it: it
journals, writes, reads back and holds the lease. A request that is not the service's own never reaches the rails.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agent.actuation.held_knob import GpuTarget
from agent.actuation.request import CapRequest
from fleet.control.identity import Peer
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
from fleet.control.tokens import READ, act, read_token
from rules.caps.knobs import VERBS
from rules.limits.node import Rails
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.identity_names import printable
from telemetry.knobs import KnobKind
from telemetry.records import Action, ActionState, Decision, Event, EventKind, Mode, Severity, Verdict, to_json

DONE = "done"
# Heuristic: whoever floods the port fills no disk; the counters go on counting.
EVENTS_PER_MINUTE = 30
_MINUTE_S = 60.0


class RefusalKind(StrEnum):
    """Why a request was not carried out."""

    MALFORMED = "malformed"
    FORGED = "forged"
    SCOPE = "scope"
    STALE = "stale"
    FENCED = "fenced"
    REPLAYED = "replayed"
    RAILS = "rails"
    FAILED = "failed"


class Actuator(Protocol):
    """Who turns knobs: the actuator process through its client, or a fake."""

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        """Hold a knob of the GPUs of a request."""
        ...

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        """Begin the leases of an incident anew."""
        ...

    def release_incident(self, incident_id: str, *, reason: str) -> tuple[Action, ...]:
        """Give up every claim of an incident."""
        ...

    def in_force(self) -> tuple[Action, ...]:
        """Return the newest action of every claim that is in force."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """Whom a node listens to, and how far.

    Parameters
    ----------
    fleets
        Services that may ask at all.
    revoked
        Ids of tokens that count no more.
    skew_s
        How far the service's clock may be from this one.
    life_max_s
        The longest life of a request: so long nonces have to be kept.
    """

    node: str
    fleets: frozenset[str]
    authority: Ed25519PublicKey
    rails: Rails
    revoked: frozenset[str] = frozenset()
    skew_s: float = 5.0
    life_max_s: float = 60.0
    lease_max_s: float = 600.0


class RefusedError(Exception):
    """A request that is not carried out, its kind and why."""

    def __init__(self, kind: RefusalKind, words: str) -> None:
        self.kind = kind
        super().__init__(words)


@dataclass(slots=True)
class Admission:
    """Decides and carries out; any thread may call it, one request at a time.

    Parameters
    ----------
    look
        Tells how things stand on the node, without what the desk keeps itself.
    tell
        Takes records: a decision for each request of a service, an event for one of nobody known.
    """

    settings: AdmissionSettings
    actuator: Actuator
    seen: ReplayProtection
    clock: Clock
    look: Callable[[], NodeState]
    tell: Callable[[Decision | Event], None]
    counts: Counter[str] = field(default_factory=Counter)
    _told_s: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, body: bytes, peer: Peer) -> ControlReply:
        """Answer one request of whoever is at the other end."""
        with self._lock:
            ask: NodeRequest | None = None
            try:
                ask = self._authentic(body, peer)
                actions = self._carried_out(ask)
            except RefusedError as err:
                return self._refuse(err, ask, peer)
            self.counts[DONE] += 1
            return ControlReply(kind=DONE, actions=tuple(to_json(action) for action in actions))

    def turn_away(self, where: str, words: str) -> None:
        """Count whoever could not even say who it is."""
        with self._lock:
            self._count(RefusalKind.FORGED)
            self._tell_of_stranger(RefusalKind.FORGED, where, words)

    def may_read(self, token: str, peer: Peer) -> str:
        """Return why a service may not read the counters, an empty text where it may."""
        try:
            return self._unknown(peer) or self._out_of_scope(token, peer, READ)
        except RefusedError as err:
            return str(err)

    def status(self) -> dict[str, object]:
        """Return the counters, and the newest term of each service."""
        terms = {fleet: term for fleet, (term, _) in self.seen.terms.items()}
        return {"node": self.settings.node, "counts": dict(self.counts), "terms": terms}

    def _authentic(self, body: bytes, peer: Peer) -> NodeRequest:
        """Return what a service really asks, with the right to, now, for the first time; RefusedError otherwise."""
        try:
            envelope = read_envelope(body)
        except ValueError as err:
            raise RefusedError(RefusalKind.MALFORMED, str(err)) from err
        if unknown := self._unknown(peer):
            raise RefusedError(RefusalKind.FORGED, unknown)
        if not is_signed(envelope, peer.key):
            raise RefusedError(RefusalKind.FORGED, "the signature is not by the key of the certificate")
        ask = self._meant(envelope, peer)
        if out_of_scope := self._out_of_scope(envelope.token, peer, act(ask.action)):
            raise RefusedError(RefusalKind.SCOPE, out_of_scope)
        now_ns = self.clock.utc_ns()
        if stale := self._stale(ask, now_ns):
            raise RefusedError(RefusalKind.STALE, stale)
        if fenced := self.seen.fenced(ask):
            raise RefusedError(RefusalKind.FENCED, fenced)
        if self.seen.replayed(ask):
            raise RefusedError(RefusalKind.REPLAYED, f"request {ask.nonce} was here before, or may have been")
        try:
            self.seen.take(ask, forget_before_ns=now_ns - self._skew_ns)
        except TransientError as err:
            raise RefusedError(RefusalKind.FAILED, str(err)) from err
        return ask

    @property
    def _skew_ns(self) -> int:
        return round(self.settings.skew_s * NS_PER_S)

    def _unknown(self, peer: Peer) -> str:
        return "" if peer.fleet in self.settings.fleets else f"{peer.fleet} is not in control.fleets"

    def _meant(self, envelope: Envelope, peer: Peer) -> NodeRequest:
        try:
            ask = read_request(envelope)
        except ValueError as err:
            raise RefusedError(RefusalKind.MALFORMED, str(err)) from err
        if ask.fleet != peer.fleet:
            raise RefusedError(RefusalKind.FORGED, f"{peer.fleet} asks in the name of {ask.fleet}")
        if ask.node != self.settings.node:
            raise RefusedError(RefusalKind.FORGED, f"meant for node {ask.node}")
        return ask

    def _out_of_scope(self, text: str, peer: Peer, scope: str) -> str:
        try:
            token = read_token(text, self.settings.authority)
        except ValueError as err:
            raise RefusedError(RefusalKind.FORGED, str(err)) from err
        if token.id in self.settings.revoked:
            return f"token {token.id} is revoked"
        return token.refusal(fleet=peer.fleet, scope=scope, now_ns=self.clock.utc_ns())

    def _stale(self, ask: NodeRequest, now_ns: int) -> str:
        if ask.issued_ns > now_ns + self._skew_ns:
            return f"issued {(ask.issued_ns - now_ns) / NS_PER_S:.1f} s ahead of this clock"
        if ask.expires_ns - ask.issued_ns > self.settings.life_max_s * NS_PER_S:
            return f"lives longer than {self.settings.life_max_s:g} s"
        if now_ns >= ask.expires_ns:
            return f"expired {(now_ns - ask.expires_ns) / NS_PER_S:.1f} s ago"
        return ""

    def _carried_out(self, ask: NodeRequest) -> tuple[Action, ...]:
        try:
            if ask.do is RequestVerb.RELEASE:
                actions = self.actuator.release_incident(ask.claim_id, reason=ask.reason)
            elif ask.do is RequestVerb.RENEW:
                actions = self._renewed(ask)
            else:
                actions = self._capped(ask)
        except ActionRefusedError as err:
            raise RefusedError(RefusalKind.RAILS, str(err)) from err
        except TransientError as err:
            raise RefusedError(RefusalKind.FAILED, str(err)) from err
        if ask.do is not RequestVerb.RENEW:
            self.tell(self._decision(ask, Verdict.EXECUTE, ask.reason))
        return actions

    def _renewed(self, ask: NodeRequest) -> tuple[Action, ...]:
        if ask.lease_s > self.settings.lease_max_s:
            raise RefusedError(
                RefusalKind.RAILS, f"a lease of {ask.lease_s:g} s, at most {self.settings.lease_max_s:g} s"
            )
        actions = self.actuator.renew(ask.claim_id, lease_s=ask.lease_s)
        if not actions:
            raise RefusedError(RefusalKind.RAILS, f"{ask.claim_id} has no claim here")
        return actions

    def _capped(self, ask: NodeRequest) -> tuple[Action, ...]:
        now_ns = self.clock.utc_ns()
        state = self._state(now_ns)
        if words := refusal(ask, state, self.settings.rails, lease_max_s=self.settings.lease_max_s, now_ns=now_ns):
            raise RefusedError(RefusalKind.RAILS, words)
        if ask.claim_id not in state.claims:
            self.seen.note_action(ask.action, now_ns)
        # What waited for the disk until it expired is not begun: the service counts its budget no longer than that.
        if stale := self._stale(ask, self.clock.utc_ns()):
            raise RefusedError(RefusalKind.STALE, stale)
        by_setting: dict[float, list[str]] = {}
        for target in targets_of(ask, state):
            by_setting.setdefault(setting_of(ask, target, state), []).append(target)
        actions: list[Action] = []
        for setting, targets in by_setting.items():
            actions += self.actuator.apply(_request(ask, targets, setting))
        if actions and all(action.state is ActionState.REFUSED for action in actions):
            raise RefusedError(RefusalKind.RAILS, actions[0].reason)
        return tuple(actions)

    def _state(self, now_ns: int) -> NodeState:
        state = self.look()
        held = self.actuator.in_force()
        return NodeState(
            settings=state.settings,
            breaker=state.breaker,
            silence=state.silence,
            capped=frozenset(
                action.entity_id
                for action in held
                if action.mode is Mode.ENFORCE and action.unit != KnobKind.FAN.unit  # a fan that is held caps nothing
            ),
            claims=frozenset(action.incident_id for action in held),
            acted_ns=(*state.acted_ns, *self.seen.acted_ns(now_ns)),
        )

    def _refuse(self, err: RefusedError, ask: NodeRequest | None, peer: Peer) -> ControlReply:
        self._count(err.kind)
        if ask is None:
            self._tell_of_stranger(err.kind, f"{peer.fleet} at {peer.where}", str(err))
        elif ask.do is not RequestVerb.RENEW or err.kind is not RefusalKind.FAILED:
            self.tell(self._decision(ask, Verdict.REFUSE, f"{err.kind}: {err}"))
        return ControlReply(kind=err.kind, words=str(err))

    def _count(self, kind: RefusalKind) -> None:
        self.counts[kind] += 1

    def _tell_of_stranger(self, kind: RefusalKind, who: str, words: str) -> None:
        now_s, now_ns = self.clock.monotonic_s(), self.clock.utc_ns()
        self._told_s = [told_s for told_s in self._told_s if now_s - told_s < _MINUTE_S]
        if len(self._told_s) >= EVENTS_PER_MINUTE:
            return
        self._told_s.append(now_s)
        self.tell(
            Event(
                id=f"control:{kind}:{now_ns}",
                time_ns=now_ns,
                kind=EventKind.CONTROL,
                entity_id=f"node:{self.settings.node}",
                code=None,
                severity=Severity.WARNING,
                # What a stranger wrote must not move the cursor of whoever reads it.
                message=printable(f"a request of {who} was refused as {kind}: {words}")[:500],
                sources=("control",),
            )
        )

    def _decision(self, ask: NodeRequest, verdict: Verdict, reason: str) -> Decision:
        return Decision(
            id=ask.decision_id,
            time_ns=self.clock.utc_ns(),
            rule=ask.owner,
            incident_id=ask.claim_id,
            action=_verb(ask),
            targets=ask.targets or (f"node:{ask.node}",),
            knob=ask.knob,
            setting=ask.setting,
            lease_s=ask.lease_s,
            mode=self.settings.rails.mode(ask.action, Mode.ENFORCE),
            verdict=verdict,
            reason=reason,
        )


def _verb(ask: NodeRequest) -> str:
    """Return what is asked as a decision calls it."""
    if ask.knob is None:
        return ask.action.value
    verbs = VERBS[ask.knob]
    return (verbs.release if ask.do is RequestVerb.RELEASE else verbs.tighten).value


def _request(ask: NodeRequest, targets: list[str], setting: float) -> CapRequest:
    return CapRequest(
        incident_id=ask.claim_id,
        decision_id=ask.decision_id,
        gpus=tuple(GpuTarget(entity_id=target, uuid=target.partition(":")[2]) for target in targets),
        kind=KnobKind(ask.action.value),
        setting=setting,
        lease_s=ask.lease_s,
        owner=ask.owner,
        mode=Mode.ENFORCE,
        reason=ask.reason,
    )
