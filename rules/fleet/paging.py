"""Notifications of the fleet: an incident once, together with a breaker that it trips, and its end."""

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
    """Notify operators of an incident, once, together with a breaker that it trips."""
    memory, incident, now_ns = at.memory, case.incident, at.now_ns
    for policy in policies:
        key = (policy.id, incident.entity_id)
        if incident.id in memory.notified or not is_met(policy, case, at):
            continue
        if any(at.limits.quiet(ActionClass.NOTIFY, incident.silence, now_ns)):
            continue
        if now_ns - memory.paged.get(key, -KEEP_NS) < policy.then.cooldown_s * NS_PER_S:
            continue
        mode = at.limits.mode(ActionClass.NOTIFY, policy.then.mode)
        reason = f"{incident.summary}; breaker tripped, an operator must reset it: {tripped}" if tripped else ""
        decision = decided(policy, incident, [], mode, at, reason=reason or incident.summary)
        memory.paged[key] = now_ns
        memory.notified[incident.id] = policy.id
        if mode is Mode.ENFORCE:
            memory.unsent.append(UnsentPage(decision=decision, incident=incident))
        yield decision


def page_breaker(
    policies: Sequence[FleetPolicy], case: FleetIncident, tripped: str, at: StepContext
) -> Iterator[Decision]:
    """Notify operators of a breaker that trips for an incident of which they were notified before."""
    memory, incident = at.memory, case.incident
    if not tripped or incident.id not in memory.notified:
        return
    for policy in policies[:1]:
        mode = at.limits.mode(ActionClass.NOTIFY, policy.then.mode)
        reason = f"the fleet's breaker tripped: {tripped}; an operator must reset it"
        decision = replace(
            decided(policy, incident, [], mode, at, reason=reason),
            id=f"fleet-breaker:{incident.id}:{at.now_ns}",
            rule="fleet-breaker",
        )
        if mode is Mode.ENFORCE:
            memory.unsent.append(UnsentPage(decision=decision, incident=incident))
        yield decision


def recover(live: frozenset[str], at: StepContext) -> None:
    """Notify operators of the end of the incidents that they were notified of."""
    for incident_id, policy_id in list(at.memory.notified.items()):
        if incident_id not in live:
            del at.memory.notified[incident_id]
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
                reason="incident closed",
            )
            at.memory.unsent.append(UnsentPage(decision=decision, incident=None, recovery=True))
