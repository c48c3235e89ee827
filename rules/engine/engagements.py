"""Switches outside the GPU, such as a drain, that are held on while their incident lives."""

from dataclasses import replace

from rules.engine.approvals import request_approval, use_approval
from rules.engine.claims import Engagement
from rules.engine.memory import Approval
from rules.engine.policy_incident import PolicyIncident
from rules.engine.refusals import breaker_summary
from rules.policy.model import Verb
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, IncidentState, Mode


def engage(subject: PolicyIncident, targets: tuple[str, ...], approval: Approval | None) -> Decision:
    """Switch on and keep the engagement."""
    memory, entity_id = subject.memory, subject.incident.entity_id
    subject.note_acted()
    if (subject.policy.id, entity_id) in memory.ended and subject.mode is Mode.ENFORCE:
        memory.note_return(subject.policy.id, entity_id, subject.now_ns, most=subject.limits.cycles_per_day)
    decision = subject.decide(
        Verb(subject.policy.then.action.value), targets, reason=subject.incident.summary, approval=approval
    )
    memory.engagements[subject.key] = Engagement(
        policy_id=subject.policy.id,
        incident_id=subject.incident.id,
        entity_id=entity_id,
        decision_id=decision.id,
        mode=subject.mode,
        targets=targets,
    )
    return decision


def follow_engagement(subject: PolicyIncident, held: Engagement) -> Decision | None:
    """Switch off once the incident has been closed for as long as the policy requires."""
    memory, release = subject.memory, subject.policy.then.release
    closed = subject.incident.state is IncidentState.CLOSED
    quiet_ns = None if not closed else subject.now_ns if held.quiet_since_ns is None else held.quiet_since_ns
    memory.engagements[subject.key] = replace(held, quiet_since_ns=quiet_ns)
    if not held.enforced:
        if closed:
            memory.end(subject.key, held.entity_id, subject.now_ns)
        return None
    if quiet_ns is None or release is None or subject.mode is not Mode.ENFORCE:
        return None
    return _give_back(subject, held, quiet_ns, after_s=release.after_s)


def _give_back(subject: PolicyIncident, held: Engagement, quiet_ns: int, *, after_s: float) -> Decision | None:
    memory = subject.memory
    if subject.now_ns - quiet_ns < after_s * NS_PER_S:
        return None
    if memory.breaker is not None:
        return subject.refuse("breaker", breaker_summary(memory.breaker))
    latch = memory.latched.get((subject.policy.id, held.entity_id))
    if latch is not None:
        if subject.watch.refused == "latched":
            return None
        memory.watches[subject.key] = replace(subject.watch, refused="latched")
        return request_approval(
            subject, Verb.DRAIN_RELEASE, held.targets, reason=f"it stays: {latch}; approve to give it back"
        )
    approval = use_approval(subject, Verb.DRAIN_RELEASE)
    memory.end(subject.key, held.entity_id, subject.now_ns)
    minutes = (subject.now_ns - quiet_ns) / NS_PER_S / 60.0
    reason = f"its incident has been closed for {minutes:.0f} min"
    return subject.decide(Verb.DRAIN_RELEASE, held.targets, reason=reason, mode=Mode.ENFORCE, approval=approval)
