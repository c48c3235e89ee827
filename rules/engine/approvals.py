"""Decisions that wait for a person: asked once, kept across restarts, answered or run out."""

from collections.abc import Sequence
from dataclasses import replace

from rules.engine.decisions import setting_of
from rules.engine.memory import Approval, Memory
from rules.engine.policy_incident import PolicyIncident
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass, Policy, Verb
from telemetry.clock import NS_PER_S
from telemetry.durations import format_duration
from telemetry.knobs import KnobKind
from telemetry.records import Decision, IncidentState, Mode, Verdict

# What an approval lets loose: see `Matter.decide` for an action, `Memory.latched` for a cap that latched.
_UNLATCHES = frozenset({Verb.CLOCK_RELAX, Verb.POWER_RELAX, Verb.FAN_RELAX, Verb.DRAIN_RELEASE})


def needs_approval(policy: Policy, limits: NodeLimits) -> bool:
    """Return whether a person has to say yes to a new action of a policy."""
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
    """Put a decision before a person; None where this incident's is waiting already."""
    memory, limits = subject.memory, subject.limits
    waiting = memory.pending.values()
    if any((item.rule, item.incident_id) == subject.key for item in waiting):
        return None
    if len(memory.pending) >= limits.pending_max:
        return subject.refuse("queue", f"{len(memory.pending)} decisions wait for a person already")
    decision = subject.decide(verb, targets, reason=f"needs approval: {reason}", setting=setting, knob=knob)
    expires_ns = subject.now_ns + int(limits.approval_expires_s * NS_PER_S)
    decision = replace(decision, verdict=Verdict.PENDING, expires_ns=expires_ns)
    memory.pending[decision.id] = decision
    return decision


def approve(memory: Memory, decision_id: str, *, who: str, why: str) -> Decision | None:
    """Take a person's yes; None where nothing of that id waits. What is done follows at the engine's next step.

    It stays among the pending ones until it is carried out or ends, so that its record never goes on waiting.
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
    asked = setting_of(decision)
    setting = None if asked is None else asked[1]
    memory.approved[key] = Approval(decision_id=decision_id, who=who, why=why, setting=setting)
    watch = memory.watches.get(key)
    if watch is not None:
        memory.watches[key] = replace(watch, refused=None)
    return decision


def use_approval(subject: PolicyIncident, verb: Verb) -> Approval | None:
    """Return a person's yes to this, once; None where there is none, or it was to something else."""
    memory, approval = subject.memory, subject.memory.approved.get(subject.key)
    waiting = None if approval is None else memory.pending.get(approval.decision_id)
    if approval is None or waiting is None or waiting.action != verb.value:
        return None
    del memory.approved[subject.key], memory.pending[waiting.id]
    return approval


def reject(memory: Memory, decision_id: str, *, who: str, why: str, now_ns: int) -> Decision | None:
    """Take a person's no: it stands until the incident closes. Gives the decision's end, None where none waits."""
    decision = memory.pending.pop(decision_id, None)
    if decision is None:
        return None
    memory.approved.pop((decision.rule, decision.incident_id), None)
    words = f"rejected by {who}" + (f": {why}" if why else "")
    key = (decision.rule, decision.incident_id)
    watch = memory.watches.get(key)
    if watch is not None and decision.action not in _UNLATCHES:
        memory.watches[key] = replace(watch, barred=words)
    return _ended(decision, words, now_ns)


def run_out(memory: Memory, modes: dict[str, Mode], now_ns: int) -> tuple[Decision, ...]:
    """End what nobody answered in time, and what nobody needs to answer any more; `modes` are those of the policies."""
    ended = []
    for decision in tuple(memory.pending.values()):
        incident = memory.incidents.get(decision.incident_id)
        key = (decision.rule, decision.incident_id)
        held = key in memory.claims or key in memory.engagements
        waits = decision.action in _UNLATCHES and key not in memory.approved
        why = None
        if incident is None or (incident.state is IncidentState.CLOSED and not held):
            why = "nobody needs to approve it any more: the incident is closed"
        elif waits and (decision.rule, incident.entity_id) not in memory.latched:
            why = "nobody needs to approve it any more: it was let go"
        elif modes.get(decision.rule) is not Mode.ENFORCE:
            why = "nobody needs to approve it any more: its class is not enforced"
        elif decision.expires_ns is not None and now_ns >= decision.expires_ns:
            waited = format_duration((decision.expires_ns - decision.time_ns) / NS_PER_S)
            given = memory.approved.get(key)
            why = f"nobody answered within {waited}"
            if given is not None:
                why = f"{given.summary}, and it did not hold any more within {waited}"
            memory.ended[decision.rule, incident.entity_id] = now_ns  # asked anew after the cooldown
        if why is not None:
            del memory.pending[decision.id]
            memory.approved.pop(key, None)
            ended.append(_ended(decision, why, now_ns))
    return tuple(ended)


def _ended(decision: Decision, why: str, now_ns: int) -> Decision:
    return replace(decision, time_ns=now_ns, verdict=Verdict.REFUSE, reason=why, expires_ns=None)
