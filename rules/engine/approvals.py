"""Decisions that wait for approval: requested once, kept across restarts, answered or expired."""

from collections.abc import Sequence
from dataclasses import replace

from rules.engine.memory import Approval, Memory
from rules.engine.policy_incident import PolicyIncident, setting_of
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass, Policy, Verb
from telemetry.clock import NS_PER_S
from telemetry.durations import format_duration
from telemetry.gpu import KnobKind
from telemetry.records import Decision, IncidentState, Mode, Verdict

# Decisions whose approval releases a latched cap (`Memory.latched`); any other approval starts an action.
_UNLATCHES = frozenset({Verb.CLOCK_RELAX, Verb.POWER_RELAX, Verb.FAN_RELAX, Verb.DRAIN_RELEASE})


def needs_approval(policy: Policy, limits: NodeLimits) -> bool:
    """Return True if a new action of a policy needs approval."""
    action = policy.then.action
    return policy.then.approval or action in limits.approval or action is ActionClass.POWER_CYCLE


def request_approval(
    subject: PolicyIncident,
    verb: Verb,
    targets: Sequence[str],
    *,
    reason: str,
    setting: float | None = None,
    knob: KnobKind | None = None,
) -> Decision | None:
    """Return a decision that waits for approval; None if one of this policy and incident already waits."""
    memory, limits = subject.memory, subject.limits
    waiting = memory.pending.values()
    if any((item.rule, item.incident_id) == subject.key for item in waiting):
        return None
    if len(memory.pending) >= limits.pending_max:
        return subject.refuse("queue", f"{len(memory.pending)} decisions already wait for approval")
    decision = subject.decide(verb, targets, reason=f"needs approval: {reason}", setting=setting, knob=knob)
    expires_ns = subject.now_ns + int(limits.approval_expires_s * NS_PER_S)
    decision = replace(decision, verdict=Verdict.PENDING, expires_ns=expires_ns)
    memory.pending[decision.id] = decision
    return decision


def approve(memory: Memory, decision_id: str, *, who: str, why: str) -> Decision | None:
    """Record an approval; None if no decision of that id waits. The next step of the engine executes it.

    The decision stays pending until it is executed or ends, so that its record never waits for ever.
    """
    decision = memory.pending.get(decision_id)
    if decision is None:
        return None
    key = (decision.rule, decision.incident_id)
    if decision.action in _UNLATCHES:
        incident = memory.incidents.get(decision.incident_id)
        entity_id = decision.targets[0] if incident is None else incident.entity_id
        memory.latched.pop((decision.rule, entity_id), None)
        memory.returns.pop((decision.rule, entity_id), None)
    requested = setting_of(decision)
    setting = None if requested is None else requested[1]
    memory.approved[key] = Approval(decision_id=decision_id, who=who, why=why, setting=setting)
    watch = memory.watches.get(key)
    if watch is not None:
        memory.watches[key] = replace(watch, refused=None)
    return decision


def use_approval(subject: PolicyIncident, verb: Verb) -> Approval | None:
    """Return and remove the approval of this action; None if there is none, or it is for another action."""
    memory, approval = subject.memory, subject.memory.approved.get(subject.key)
    waiting = None if approval is None else memory.pending.get(approval.decision_id)
    if approval is None or waiting is None or waiting.action != verb.value:
        return None
    del memory.approved[subject.key], memory.pending[waiting.id]
    return approval


def reject(memory: Memory, decision_id: str, *, who: str, why: str, now_ns: int) -> Decision | None:
    """Record a rejection, valid until the incident closes; return the ended decision, None if none waits."""
    decision = memory.pending.pop(decision_id, None)
    if decision is None:
        return None
    memory.approved.pop((decision.rule, decision.incident_id), None)
    reason = f"rejected by {who}" + (f": {why}" if why else "")
    key = (decision.rule, decision.incident_id)
    watch = memory.watches.get(key)
    if watch is not None and decision.action not in _UNLATCHES:
        memory.watches[key] = replace(watch, barred=reason)
    return _ended(decision, reason, now_ns)


def run_out(memory: Memory, modes: dict[str, Mode], now_ns: int) -> tuple[Decision, ...]:
    """End the decisions that expired or no longer need approval; `modes` are those of the policies."""
    ended = []
    for decision in tuple(memory.pending.values()):
        incident = memory.incidents.get(decision.incident_id)
        key = (decision.rule, decision.incident_id)
        held = key in memory.claims or key in memory.engagements
        waits = decision.action in _UNLATCHES and key not in memory.approved
        why = None
        if incident is None or (incident.state is IncidentState.CLOSED and not held):
            why = "approval no longer needed: the incident is closed"
        elif waits and (decision.rule, incident.entity_id) not in memory.latched:
            why = "approval no longer needed: the cap was released"
        elif modes.get(decision.rule) is not Mode.ENFORCE:
            why = "approval no longer needed: its class is not enforced"
        elif decision.expires_ns is not None and now_ns >= decision.expires_ns:
            waited = format_duration((decision.expires_ns - decision.time_ns) / NS_PER_S)
            given = memory.approved.get(key)
            why = f"no answer within {waited}"
            if given is not None:
                why = f"{given.summary}, but no longer applicable within {waited}"
            memory.ended[decision.rule, incident.entity_id] = now_ns  # requested again after the cooldown
        if why is not None:
            del memory.pending[decision.id]
            memory.approved.pop(key, None)
            ended.append(_ended(decision, why, now_ns))
    return tuple(ended)


def _ended(decision: Decision, why: str, now_ns: int) -> Decision:
    return replace(decision, time_ns=now_ns, verdict=Verdict.REFUSE, reason=why, expires_ns=None)
