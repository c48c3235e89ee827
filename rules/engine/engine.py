"""The engine of a node: incidents in, decisions out, within its limits.

It keeps state between steps and uses no clock, file or hardware: the same calls return the same decisions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from physics.node_state import MeasuredNode
from rules.caps.cap_claims import (
    follow_cap,
    follow_unenforced,
    is_ramp,
    no_laxer_than,
    plan_cap,
    set_claim,
    settable_targets,
    starts_now,
)
from rules.caps.knobs import KNOB_OF
from rules.caps.start_ramp import concerns, watch_first_start
from rules.caps.targets import node_of, reach_summary, targets_of
from rules.conditions.facts import Facts, facts_of
from rules.engine.approvals import approve, needs_approval, reject, request_approval, run_out, use_approval
from rules.engine.claims import CapClaim, Engagement, PolicyProgress
from rules.engine.engagements import engage, follow_engagement
from rules.engine.memory import Memory, Reset, Worsened, restore_memory
from rules.engine.policy_incident import PolicyIncident, policy_of
from rules.engine.refusals import may_climb, refusals
from rules.limits.node import HOUR_NS, Breaker, NodeLimits, UnmeasuredStart
from rules.policy.model import ActionClass, Policy, PolicyStatus, Verb
from telemetry.clock import NS_PER_S
from telemetry.commands import Command, CommandVerb
from telemetry.entities import EntityKind, Topology
from telemetry.records import Action, ActionState, Decision, Incident, IncidentState, Mode, Outcome, Verdict

# Actions on the entity of the incident; every other action outside the GPUs is on the node.
_ON_THE_INCIDENT = frozenset({ActionClass.NOTIFY, ActionClass.HOOK})
# Held while the incident lives, then released; every other action outside the GPUs is done once.
_SWITCHES = frozenset({ActionClass.DRAIN})


class Engine:
    """Engine of one node.

    Parameters
    ----------
    policies
        In order of precedence; deprecated ones are left out.
    limits
        The limits; may be replaced between steps.
    topology
        Which supply feeds which GPU, and which job computes on which; may be replaced between steps.
    """

    def __init__(self, policies: Sequence[Policy], *, limits: NodeLimits, topology: Topology) -> None:
        self._policies = tuple(policy for policy in policies if policy.status is not PolicyStatus.DEPRECATED)
        self._by_id = {policy.id: policy for policy in self._policies}
        self.topology = topology
        self._memory = Memory()
        self.limits = limits

    @property
    def breaker(self) -> Breaker | None:
        """The tripped breaker; None if it is not tripped."""
        return self._memory.breaker

    @property
    def resets(self) -> tuple[Reset, ...]:
        """The last resets of the breaker."""
        return self._memory.resets

    @property
    def latched(self) -> tuple[tuple[str, str, str], ...]:
        """Policy, entity and reason of every cap that is latched: it is no longer relaxed."""
        return tuple((*key, why) for key, why in self._memory.latched.items())

    @property
    def claims(self) -> tuple[CapClaim, ...]:
        """The caps to hold now; the actuator client renews their leases."""
        return tuple(claim for claim in list(self._memory.claims.values()) if self._stands(claim))

    @property
    def engagements(self) -> tuple[Engagement, ...]:
        """The switches outside the GPUs to hold on now, such as drains."""
        return tuple(held for held in self._memory.engagements.values() if self._stands(held))

    @property
    def pending(self) -> tuple[Decision, ...]:
        """The decisions that wait for approval."""
        answered = {approval.decision_id for approval in self._memory.approved.values()}
        return tuple(one for one in self._memory.pending.values() if one.id not in answered)

    @property
    def busy(self) -> bool:
        """True if it holds or awaits something and must be stepped even without new incidents."""
        memory = self._memory
        waits = self.limits.unmeasured_start is not UnmeasuredStart.FULL and not memory.path_measured
        return bool(memory.claims or memory.engagements or memory.pending or waits)

    def moves_knob(self, id_of_decision: str) -> bool:
        """Return True if a decision is one on a knob of the GPUs."""
        policy = self._by_id.get(policy_of(id_of_decision))
        return policy is None or policy.then.action in KNOB_OF

    def step(self, incidents: Sequence[Incident], node: MeasuredNode, now_ns: int) -> tuple[Decision, ...]:
        """Process the incidents that are new or changed, or all of them, and return the decisions.

        Call it at every tick while an incident is live: holding and relaxing depend on time. A step returns at most one
        decision per policy and incident.
        """
        memory = self._memory
        memory.note_time(now_ns)
        known = memory.incidents
        known.update({incident.id: incident for incident in incidents})
        watch_first_start(memory, node, self.limits, now_ns)
        if not known and not memory.pending:
            return ()
        decisions: list[Decision] = []
        if memory.pending:
            modes = {policy.id: self._mode(policy) for policy in self._policies}
            decisions += run_out(memory, modes, now_ns)
        for incident in sorted(known.values(), key=lambda item: (item.opened_ns, item.id)):
            facts = cache(partial(facts_of, incident, node, now_ns))  # the same for each policy
            for policy in (one for one in self._policies if concerns(one, incident)):
                decision = self._advance(self._subject(policy, incident, node, now_ns), facts)
                if decision is not None:
                    decisions.append(decision)
        memory.forget(now_ns)
        return tuple(decisions)

    def foresee(self, incident: Incident, node: MeasuredNode, now_ns: int) -> tuple[CapClaim, ...]:
        """Return the clock caps that this incident would get at once if it opened now.

        The state stays as it is. Empty if a limit, a mode, an operator or a hold time prevents it.
        """
        kept = self._memory
        self._memory = kept.copy()
        try:
            decided = {
                decision.id
                for decision in self.step((incident,), node, now_ns)
                if decision.incident_id == incident.id
                and decision.verdict is Verdict.EXECUTE
                and decision.action == Verb.CLOCK_CAP
            }
            return tuple(claim for claim in self._memory.claims.values() if claim.decision_id in decided)
        finally:
            self._memory = kept

    def note_action(self, action: Action) -> None:
        """Record the result of an action of a decision."""
        if action.mode is not Mode.ENFORCE:
            return
        memory = self._memory
        key = (policy_of(action.decision_id), action.incident_id)
        if action.state in (ActionState.FAILED, ActionState.REFUSED):
            if action.state is ActionState.FAILED:
                memory.rungs[key] = False
            memory.failed = tuple(dict.fromkeys((*memory.failed, action.decision_id)))
            if len(memory.failed) >= self.limits.failures_before_trip:
                self.trip(f"{len(memory.failed)} decisions in a row failed: {action.reason}", now_ns=action.time_ns)
        elif action.state in (ActionState.APPLIED, ActionState.RENEWED, ActionState.RELAXED, ActionState.DONE):
            memory.failed = ()
        elif key in memory.claims and action.entity_id in memory.claims[key].gpus:  # released by something else
            memory.keep(key, memory.claims[key].without(action.entity_id), action.time_ns)
        elif key in memory.engagements and action.state is ActionState.RELEASED:
            memory.end(key, memory.engagements[key].entity_id, action.time_ns)

    def note_outcome(self, outcome: Outcome) -> None:
        """Record whether an action helped: rungs above it wait for that, and the breaker counts what got worse."""
        memory = self._memory
        key = (policy_of(outcome.decision_id), outcome.incident_id)
        if outcome.helped is None or key[1] not in memory.incidents:
            return
        memory.rungs[key] = outcome.helped
        claim = memory.claims.get(key)
        if outcome.helped or claim is None or not _worse(outcome):
            return
        memory.worsened = (*memory.worsened, Worsened(gpus=claim.gpus, time_ns=outcome.time_ns))
        lately = [one for one in memory.worsened if outcome.time_ns - one.time_ns < HOUR_NS]
        gpus = {gpu for one in lately for gpu in one.gpus}
        total = len(self.topology.of_kind(EntityKind.GPU)) or len(gpus)
        if len(lately) >= self.limits.failures_before_trip and len(gpus) >= self.limits.worse_share_to_trip * total:
            reason = f"{len(lately)} actions in an hour, on {len(gpus)} of {total} GPUs, made it worse"
            self.trip(reason, now_ns=outcome.time_ns)

    def obey(self, command: Command, now_ns: int) -> tuple[Decision, ...]:
        """Carry out a command of an operator and return the decision that it ends; commands to others do nothing."""
        match command.verb:
            case CommandVerb.APPROVE:
                self.approve(command.subject, who=command.who, why=command.why)
            case CommandVerb.REJECT:
                ended = self.reject(command.subject, who=command.who, why=command.why, now_ns=now_ns)
                return () if ended is None else (ended,)
            case CommandVerb.RESET_BREAKER:
                self.reset_breaker(who=command.who, why=command.why, now_ns=now_ns)
        return ()

    def approve(self, decision_id: str, *, who: str, why: str = "") -> Decision | None:
        """Approve a waiting decision; the next step executes it if it still applies. None if no such decision waits."""
        return approve(self._memory, decision_id, who=who, why=why)

    def reject(self, decision_id: str, *, who: str, why: str = "", now_ns: int) -> Decision | None:
        """End a waiting decision and bar its policy from the incident; None if no such decision waits."""
        return reject(self._memory, decision_id, who=who, why=why, now_ns=now_ns)

    def bar(self, incident_id: str, *, who: str) -> None:
        """Bar new actions on an incident until it closes: an operator released one."""
        for policy in self._policies:
            watch = self._memory.watches.get((policy.id, incident_id), PolicyProgress())
            barred = f"{who} released the action on this incident"
            self._memory.watches[policy.id, incident_id] = replace(watch, barred=barred)

    def trip(self, reason: str, *, now_ns: int) -> None:
        """Stop every new action and every change of a cap; caps in force stay."""
        if self._memory.breaker is None:
            self._memory.breaker = Breaker(tripped_ns=now_ns, reason=reason)

    def reset_breaker(self, *, who: str, why: str = "", now_ns: int) -> None:
        """Reset the breaker and unlatch caps; only an operator may request it."""
        self._memory.reset(Reset(who=who, why=why, time_ns=now_ns))

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as JSON types."""
        return self._memory.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot; ValueError if it is not one.

        Claims of policies that no longer exist are dropped, and those that were enforced under a mode which has been
        lowered: their incidents are judged again in the mode in force.
        """
        memory = self._memory = restore_memory(state, policies=frozenset(policy.id for policy in self._policies))
        memory.claims = {key: held for key, held in memory.claims.items() if not held.enforced or self._stands(held)}
        memory.engagements = {
            key: held for key, held in memory.engagements.items() if not held.enforced or self._stands(held)
        }

    def _subject(self, policy: Policy, incident: Incident, node: MeasuredNode, now_ns: int) -> PolicyIncident:
        return PolicyIncident(
            policy=policy,
            incident=incident,
            node=node,
            limits=self.limits,
            topology=self.topology,
            memory=self._memory,
            now_ns=now_ns,
        )

    def _advance(self, subject: PolicyIncident, facts: Callable[[], Facts]) -> Decision | None:
        memory, key = self._memory, subject.key
        held = memory.claims.get(key) or memory.engagements.get(key)
        if held is not None and not held.enforced and held.mode is not subject.mode and subject.is_open:
            memory.claims.pop(key, None)
            memory.engagements.pop(key, None)
            held = None
        if held is None:
            return self._consider(subject, facts)
        if isinstance(held, Engagement):
            return follow_engagement(subject, held)
        return follow_cap(subject, held) if held.enforced else follow_unenforced(subject, held)

    def _consider(self, subject: PolicyIncident, facts: Callable[[], Facts]) -> Decision | None:
        policy, memory = subject.policy, self._memory
        watch = memory.watches[subject.key] = self._judged(subject, facts)
        live = subject.is_open or (is_ramp(subject) and subject.incident.state is not IncidentState.CLOSED)
        if not live or watch.done or not may_climb(subject, self._by_id):
            return None
        if watch.judgement.doubt is not None:
            return subject.refuse("doubt", watch.judgement.doubt)
        since_ns = watch.met_since_ns
        if since_ns is None or subject.now_ns - since_ns < policy.then.hold_s * NS_PER_S:
            return None
        if watch.met_times < policy.then.consecutive or (is_ramp(subject) and not starts_now(subject)):
            return None
        targets = self._targets(subject)
        if not targets and subject.node.gpus:
            memory.rungs[subject.key] = False  # no GPU has its knob: the next rung may act
        refusal = next(refusals(subject, targets), None)
        if refusal is not None:
            return subject.refuse(*refusal)
        return self._act(subject, targets)

    def _judged(self, subject: PolicyIncident, facts: Callable[[], Facts]) -> PolicyProgress:
        """Return the progress with the present judgement, and since when and how often the condition has been met."""
        incident, policy, watch = subject.incident, subject.policy, subject.watch
        news, judgement = watch.judged_ns != incident.time_ns, watch.judgement
        if news or policy.when.moves:
            judgement = policy.when.judge(facts())
        live = incident.state is not IncidentState.CLOSED and (subject.is_open or is_ramp(subject))
        met_since_ns, met_times = None, 0
        if live and judgement.met:
            met_since_ns = subject.now_ns if watch.met_since_ns is None else watch.met_since_ns
            met_times = watch.met_times + (news or watch.met_since_ns is None)
        return replace(
            watch,
            judged_ns=incident.time_ns,
            judgement=judgement,
            met_since_ns=met_since_ns,
            met_times=met_times,
        )

    def _targets(self, subject: PolicyIncident) -> tuple[str, ...]:
        then, incident = subject.policy.then, subject.incident
        if then.target is not None:
            return settable_targets(subject, targets_of(then.target, incident, subject.node, self.topology))
        if then.action in _ON_THE_INCIDENT:
            return (incident.entity_id,)
        return (node_of(self.topology) or incident.entity_id,)

    def _act(self, subject: PolicyIncident, targets: tuple[str, ...]) -> Decision | None:
        """Decide on the action of the policy, or request approval for it."""
        then, incident = subject.policy.then, subject.incident
        verb = Verb(then.action.value)
        asks = subject.mode is Mode.ENFORCE and needs_approval(subject.policy, self.limits)
        if then.action in KNOB_OF:
            found = plan_cap(subject, targets)
            reach = reach_summary(then.target, incident, self.topology)
            if reach and found.choice.setting is not None:
                found = replace(found, choice=replace(found.choice, reason=f"{found.choice.reason}; {reach}"))
            choice = found.choice
            asks = asks and choice.setting is not None
            approval = use_approval(subject, verb) if asks else None
            granted = found if approval is None else no_laxer_than(found, approval.setting)
            if granted is None or (asks and approval is None):
                return request_approval(
                    subject, verb, targets, reason=choice.reason, setting=choice.setting, knob=found.knob
                )
            return set_claim(subject, granted, targets, approval)
        approval = use_approval(subject, verb) if asks else None
        if asks and approval is None:
            return request_approval(subject, verb, targets, reason=incident.summary)
        if then.action in _SWITCHES:
            return engage(subject, targets, approval)
        subject.note_acted()
        self._memory.watches[subject.key] = replace(subject.watch, done=True)
        self._memory.end(subject.key, incident.entity_id, subject.now_ns)
        return subject.decide(verb, targets, reason=incident.summary, approval=approval)

    def _stands(self, held: CapClaim | Engagement) -> bool:
        policy = self._by_id.get(held.policy_id)
        return held.enforced and policy is not None and self._mode(policy) is Mode.ENFORCE

    def _mode(self, policy: Policy) -> Mode:
        return self.limits.mode(policy.then.action, policy.then.mode)


def _worse(outcome: Outcome) -> bool:
    """Return True if the measured quantity is worse than before: a voltage fell, a temperature or a share rose."""
    if outcome.before is None or outcome.after is None:
        return False
    return outcome.after < outcome.before if outcome.higher_is_better else outcome.after > outcome.before
