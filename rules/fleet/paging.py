"""What people are told of the fleet: an incident once, a breaker that trips in the same breath, and that it is over."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rules.fleet.decisions import decided, is_met
from rules.fleet.memory import KEEP_NS, UnsentPage
from rules.fleet.orders import FleetIncident, StepContext
from rules.fleet.policy import FleetPolicy
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Mode, Verdict


def page(policies: Sequence[FleetPolicy], case: FleetIncident, tripped: str, at: StepContext) -> Iterator[Decision]:
    """Return people of an incident, once: a breaker that trips for it is told in the same breath."""
    memory, incident, now_ns = at.memory, case.incident, at.now_ns
    for policy in policies:
        key = (policy.id, incident.entity_id)
        if incident.id in memory.told or not is_met(policy, case, at):
            continue
        if any(at.limits.quiet(ActionClass.NOTIFY, incident.silence, now_ns)):
            continue
        if now_ns - memory.paged.get(key, -KEEP_NS) < policy.then.cooldown_s * NS_PER_S:
            continue
        mode = at.limits.mode(ActionClass.NOTIFY, policy.then.mode)
        words = f"{incident.summary}; {tripped}: the breaker tripped, and a person must reset it" if tripped else ""
        decision = decided(policy, incident, [], mode, at, reason=words or incident.summary)
        memory.paged[key] = now_ns
        memory.told[incident.id] = policy.id
        if mode is Mode.ENFORCE:
            memory.unsent.append(UnsentPage(decision=decision, incident=incident))
        yield decision


def page_breaker(
    policies: Sequence[FleetPolicy], case: FleetIncident, tripped: str, at: StepContext
) -> Iterator[Decision]:
    """Return people of a breaker that trips for an incident which they know of already."""
    memory, incident = at.memory, case.incident
    if not tripped or incident.id not in memory.told:
        return
    for policy in policies[:1]:
        mode = at.limits.mode(ActionClass.NOTIFY, policy.then.mode)
        reason = f"the fleet's breaker tripped: {tripped}; a person must reset it"
        decision = replace(
            decided(policy, incident, [], mode, at, reason=reason),
            id=f"fleet-breaker:{incident.id}:{at.now_ns}",
            rule="fleet-breaker",
        )
        if mode is Mode.ENFORCE:
            memory.unsent.append(UnsentPage(decision=decision, incident=incident))
        yield decision


def recover(live: frozenset[str], at: StepContext) -> None:
    """Report those who were told that it is over."""
    for incident_id, policy_id in list(at.memory.told.items()):
        if incident_id not in live:
            del at.memory.told[incident_id]
            decision = Decision(
                id=f"{policy_id}:{incident_id}:{at.now_ns}",
                time_ns=at.now_ns,
                rule=policy_id,
                incident_id=incident_id,
                action=ActionClass.NOTIFY.value,
                targets=(),
                lease_s=None,
                mode=Mode.ENFORCE,
                verdict=Verdict.EXECUTE,
                reason="it is over",
            )
            at.memory.unsent.append(UnsentPage(decision=decision, incident=None, recovery=True))
