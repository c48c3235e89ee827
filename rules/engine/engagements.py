"""Engagements: a switch outside the GPU, such as a drain, that is held on while its incident lives."""

from dataclasses import replace

from rules.engine.approvals import ask, use_approval
from rules.engine.claims import Engagement
from rules.engine.memory import Approval
from rules.engine.policy_incident import Matter
from rules.engine.refusals import breaker_words
from rules.policy.model import Verb
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, IncidentState, Mode


def engage(matter: Matter, targets: tuple[str, ...], approval: Approval | None) -> Decision:
    """Switch on, and keep that it is."""
    memory, entity_id = matter.memory, matter.incident.entity_id
    matter.note_acted()
    if (matter.policy.id, entity_id) in memory.ended and matter.mode is Mode.ENFORCE:
        memory.note_return(matter.policy.id, entity_id, matter.now_ns, most=matter.limits.cycles_per_day)
    decision = matter.decide(
        Verb(matter.policy.then.action.value), targets, reason=matter.incident.summary, approval=approval
    )
    memory.engagements[matter.key] = Engagement(
        policy_id=matter.policy.id,
        incident_id=matter.incident.id,
        entity_id=entity_id,
        decision_id=decision.id,
        mode=matter.mode,
        targets=targets,
    )
    return decision


def follow_engagement(matter: Matter, held: Engagement) -> Decision | None:
    """Return what was switched on, once its incident has been closed for as long as the policy says."""
    memory, release = matter.memory, matter.policy.then.release
    closed = matter.incident.state is IncidentState.CLOSED
    quiet_ns = None if not closed else matter.now_ns if held.quiet_since_ns is None else held.quiet_since_ns
    memory.engagements[matter.key] = replace(held, quiet_since_ns=quiet_ns)
    if not held.enforced:
        if closed:
            memory.end(matter.key, held.entity_id, matter.now_ns)
        return None
    if quiet_ns is None or release is None or matter.mode is not Mode.ENFORCE:
        return None
    return _give_back(matter, held, quiet_ns, after_s=release.after_s)


def _give_back(matter: Matter, held: Engagement, quiet_ns: int, *, after_s: float) -> Decision | None:
    memory = matter.memory
    if matter.now_ns - quiet_ns < after_s * NS_PER_S:
        return None
    if memory.breaker is not None:
        return matter.refuse("breaker", breaker_words(memory.breaker))
    latch = memory.latched.get((matter.policy.id, held.entity_id))
    if latch is not None:
        if matter.watch.refused == "latched":
            return None
        memory.watches[matter.key] = replace(matter.watch, refused="latched")
        return ask(matter, Verb.DRAIN_RELEASE, held.targets, reason=f"it stays: {latch}; approve to give it back")
    approval = use_approval(matter, Verb.DRAIN_RELEASE)
    memory.end(matter.key, held.entity_id, matter.now_ns)
    minutes = (matter.now_ns - quiet_ns) / NS_PER_S / 60.0
    reason = f"its incident has been closed for {minutes:.0f} min"
    return matter.decide(Verb.DRAIN_RELEASE, held.targets, reason=reason, mode=Mode.ENFORCE, approval=approval)
