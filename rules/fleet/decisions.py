"""Decisions of the fleet's engine: conditions met, refusals, each reported once, and notifications."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rules.caps.knobs import KNOB_OF
from rules.conditions.facts import facts_of
from rules.fleet.memory import KEEP_NS, UnsentPage
from rules.fleet.orders import FleetIncident, StepContext
from rules.fleet.policy import FleetPolicy
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Incident, IncidentState, Mode, Verdict

_SHOWN = 4
_VERDICTS = {Mode.ENFORCE: Verdict.EXECUTE, Mode.RECOMMEND: Verdict.RECOMMEND, Mode.OBSERVE: Verdict.OBSERVE}


def is_met(policy: FleetPolicy, case: FleetIncident, at: StepContext) -> bool:
    """Return True if a policy's condition was met without a break for its hold time."""
    incident, since = case.incident, at.memory.met_since
    pair = (policy.id, incident.id)
    met = incident.state is IncidentState.OPEN and policy.when.judge(facts_of(incident)).met
    if policy.after is not None:
        awaited = at.memory.awaited.get((policy.after, incident.id))
        met = met and awaited is not None and awaited.helped is False
    if not met:
        since.pop(pair, None)
        return False
    return at.now_ns - since.setdefault(pair, at.now_ns) >= policy.then.hold_s * NS_PER_S


def decided(
    policy: FleetPolicy, incident: Incident, nodes: Sequence[str], mode: Mode, at: StepContext, *, reason: str = ""
) -> Decision:
    """Return the decision of a policy on some nodes, on the entity of the incident if none is named."""
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    knob, ratio = KNOB_OF.get(policy.then.action), policy.then.ratio
    what = "" if knob is None or ratio is None else f"{ratio:.0%} of the highest {knob.label}, "
    return Decision(
        id=f"{policy.id}:{incident.id}:{at.now_ns}",
        time_ns=at.now_ns,
        rule=policy.id,
        incident_id=incident.id,
        action=policy.then.action.value,
        targets=tuple(f"node:{node}" for node in nodes) or (incident.entity_id,),
        lease_s=None if knob is None else policy.then.lease_s,
        mode=mode,
        verdict=_VERDICTS[mode],
        reason=reason or f"{what}{', '.join(nodes[:_SHOWN])}{more}: {incident.summary}",
    )


def refusals(
    policy: FleetPolicy, incident: Incident, refused: Mapping[str, tuple[str, int]], mode: Mode, at: StepContext
) -> Iterator[Decision]:
    """Yield refusals by limits, each with its reason and number of nodes; each kind of one incident once."""
    for kind, (why, count) in refused.items():
        if is_new(policy, incident, kind, at):
            reason = f"{why}; {count} node{'s' if count > 1 else ''} left as they are"
            decision = decided(policy, incident, [], mode, at, reason=reason)
            yield replace(decision, id=f"{decision.id}:{kind}", verdict=Verdict.REFUSE, targets=(incident.entity_id,))


def is_new(policy: FleetPolicy, incident: Incident, kind: str, at: StepContext) -> bool:
    """Return True the first time this kind is reported for an incident."""
    one = (policy.id, incident.id, kind)
    new = one not in at.memory.reported
    at.memory.reported.add(one)
    return new


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
