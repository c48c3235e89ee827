"""The engine of a node: incidents in, decisions out, within its limits.

It keeps state between steps and nothing else: no clock, no file, no hardware. The same calls give the same decisions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from physics.node_state import NodeState
from rules.caps.claims_on_knobs import able, at_most, follow, is_ramp, plan, set_claim, shadow, starts_now
from rules.caps.first_start import concerns, watch_first_start
from rules.caps.knobs import KNOB_OF
from rules.caps.targets import node_of, reach_words, targets_of
from rules.conditions.facts import facts_of
from rules.engine.approvals import approve, ask, needs_person, reject, run_out, use_approval
from rules.engine.claims import Claim, Engagement, Watch
from rules.engine.decisions import policy_of
from rules.engine.engagements import engage, follow_engagement
from rules.engine.ladder import may_climb
from rules.engine.memory import Memory, Reset, Worsened, restore_memory
from rules.engine.policy_incident import Matter
from rules.engine.refusals import refusals
from rules.limits.node import HOUR_NS, Breaker, NodeLimits, UnmeasuredStart
from rules.policy.model import ActionClass, Policy, PolicyStatus, Verb
from telemetry.clock import NS_PER_S
from telemetry.commands import Command, CommandVerb
from telemetry.entities import EntityKind, Topology
from telemetry.records import Action, ActionState, Decision, Incident, IncidentState, Mode, Outcome, Verdict

# Told to people or done about what the incident is on; every other action outside the GPUs is done to the node.
_ON_THE_INCIDENT = frozenset({ActionClass.NOTIFY, ActionClass.HOOK})
# Held on while the incident lives, and given back; the others outside the GPUs are said once.
_SWITCHES = frozenset({ActionClass.DRAIN})


class Engine:
    """Decides for one node.

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
        """The tripped breaker, None while it is whole."""
        return self._memory.breaker

    @property
    def resets(self) -> tuple[Reset, ...]:
        """Who reset the breaker lately."""
        return self._memory.resets

    @property
    def latched(self) -> tuple[tuple[str, str, str], ...]:
        """Policy, entity and reason of every cap that is no longer relaxed."""
        return tuple((*key, why) for key, why in self._memory.latched.items())

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The settings that ought to stand in the GPUs now: whoever carries them out renews their leases."""
        return tuple(claim for claim in self._memory.claims.values() if self._stands(claim))

    @property
    def engagements(self) -> tuple[Engagement, ...]:
        """The switches outside the GPUs that ought to be on now."""
        return tuple(held for held in self._memory.engagements.values() if self._stands(held))

    @property
    def pending(self) -> tuple[Decision, ...]:
        """The decisions that wait for a person."""
        answered = {word.decision_id for word in self._memory.approved.values()}
        return tuple(one for one in self._memory.pending.values() if one.id not in answered)

    @property
    def busy(self) -> bool:
        """Whether it holds or awaits something, so that it has to be stepped though there is no news."""
        memory = self._memory
        waits = self.limits.unmeasured_start is not UnmeasuredStart.FULL and not memory.path_measured
        return bool(memory.claims or memory.engagements or memory.pending or waits)

    def moves_knob(self, id_of_decision: str) -> bool:
        """Return whether a decision is one on a knob of the GPUs."""
        policy = self._by_id.get(policy_of(id_of_decision))
        return policy is None or policy.then.action in KNOB_OF

    def step(self, incidents: Sequence[Incident], node: NodeState, now_ns: int) -> tuple[Decision, ...]:
        """Take the incidents that are new or changed, or all of them, and decide.

        Call it at every tick while an incident is live, for holding and relaxing take time to pass, not news. At most
        one decision per policy and incident comes of a step.
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
            for policy in (one for one in self._policies if concerns(one, incident)):
                decision = self._advance(self._matter(policy, incident, node, now_ns))
                if decision is not None:
                    decisions.append(decision)
        memory.forget(now_ns)
        return tuple(decisions)

    def foresee(self, incident: Incident, node: NodeState, now_ns: int) -> tuple[Claim, ...]:
        """Return the clock caps that this incident would be answered with at once, were it there now.

        Nothing is remembered. Nothing comes where a rail, a mode, a person or a hold time stands in the way.
        """
        kept = self._memory
        self._memory = kept.copy()
        try:
            said = {
                decision.id
                for decision in self.step((incident,), node, now_ns)
                if decision.incident_id == incident.id
                and decision.verdict is Verdict.EXECUTE
                and decision.action == Verb.CLOCK_CAP
            }
            return tuple(claim for claim in self._memory.claims.values() if claim.decision_id in said)
        finally:
            self._memory = kept

    def note_action(self, action: Action) -> None:
        """Learn what became of a decision."""
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
        elif key in memory.claims and action.entity_id in memory.claims[key].gpus:  # gone, and not by our word
            memory.keep(key, memory.claims[key].without(action.entity_id), action.time_ns)
        elif key in memory.engagements and action.state is ActionState.RELEASED:
            memory.end(key, memory.engagements[key].entity_id, action.time_ns)

    def note_outcome(self, outcome: Outcome) -> None:
        """Learn whether an action helped: rungs above it wait for that, and the breaker counts what got worse."""
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
            words = f"{len(lately)} actions in an hour, on {len(gpus)} of {total} GPUs, made it worse"
            self.trip(words, now_ns=outcome.time_ns)

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
        """Let a decision that waits be carried out at the next step, if it still holds; None where none waits."""
        return approve(self._memory, decision_id, who=who, why=why)

    def reject(self, decision_id: str, *, who: str, why: str = "", now_ns: int) -> Decision | None:
        """End a decision that waits, and bar its policy from the incident; None where none waits."""
        return reject(self._memory, decision_id, who=who, why=why, now_ns=now_ns)

    def bar(self, incident_id: str, *, who: str) -> None:
        """Give an incident no new action: a person took one back, and a person's word stands until it closes."""
        for policy in self._policies:
            watch = self._memory.watches.get((policy.id, incident_id), Watch())
            barred = f"{who} took the action on this incident back"
            self._memory.watches[policy.id, incident_id] = replace(watch, barred=barred)

    def trip(self, reason: str, *, now_ns: int) -> None:
        """Stop every new action and every change of a cap; caps in force stay."""
        if self._memory.breaker is None:
            self._memory.breaker = Breaker(tripped_ns=now_ns, reason=reason)

    def reset_breaker(self, *, who: str, why: str = "", now_ns: int) -> None:
        """Go on, and relax again what was latched; only a person may ask for it."""
        self._memory.reset(Reset(who=who, why=why, time_ns=now_ns))

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as JSON types."""
        return self._memory.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot; ValueError where it is none.

        Dropped is what belongs to a policy that is gone, and what was enforced under a mode which now says less: its
        incident is judged anew, in the mode in force.
        """
        memory = self._memory = restore_memory(state, policies=frozenset(policy.id for policy in self._policies))
        memory.claims = {key: held for key, held in memory.claims.items() if not held.enforced or self._stands(held)}
        memory.engagements = {
            key: held for key, held in memory.engagements.items() if not held.enforced or self._stands(held)
        }

    def _matter(self, policy: Policy, incident: Incident, node: NodeState, now_ns: int) -> Matter:
        return Matter(
            policy=policy,
            incident=incident,
            node=node,
            limits=self.limits,
            topology=self.topology,
            memory=self._memory,
            now_ns=now_ns,
        )

    def _advance(self, matter: Matter) -> Decision | None:
        memory, key = self._memory, matter.key
        held = memory.claims.get(key) or memory.engagements.get(key)
        if held is not None and not held.enforced and held.mode is not matter.mode and matter.is_open:
            memory.claims.pop(key, None)
            memory.engagements.pop(key, None)
            held = None
        if held is None:
            return self._consider(matter)
        if isinstance(held, Engagement):
            return follow_engagement(matter, held)
        return follow(matter, held) if held.enforced else shadow(matter, held)

    def _consider(self, matter: Matter) -> Decision | None:
        policy, memory = matter.policy, self._memory
        watch = memory.watches[matter.key] = self._judged(matter)
        live = matter.is_open or (is_ramp(matter) and matter.incident.state is not IncidentState.CLOSED)
        if not live or watch.done or not may_climb(matter, self._by_id):
            return None
        if watch.judgement.doubt is not None:
            return matter.refuse("doubt", watch.judgement.doubt)
        since_ns = watch.met_since_ns
        if since_ns is None or matter.now_ns - since_ns < policy.then.hold_s * NS_PER_S:
            return None
        if watch.met_times < policy.then.consecutive or (is_ramp(matter) and not starts_now(matter)):
            return None
        targets = self._targets(matter)
        if not targets and matter.node.gpus:
            memory.rungs[matter.key] = False  # nothing that it could move is there: the next rung may try
        refusal = next(refusals(matter, targets), None)
        if refusal is not None:
            return matter.refuse(*refusal)
        return self._act(matter, targets)

    def _judged(self, matter: Matter) -> Watch:
        """Return the watch with what the condition says now, and since when and how often it has been met."""
        incident, policy, watch = matter.incident, matter.policy, matter.watch
        news = watch.judged_ns != incident.time_ns
        if news or policy.when.moves:
            judgement = policy.when.judge(facts_of(incident, matter.node, matter.now_ns))
            watch = replace(watch, judged_ns=incident.time_ns, judgement=judgement)
        if incident.state is IncidentState.CLOSED or not watch.judgement.met:
            return replace(watch, met_since_ns=None, met_times=0)
        if not (matter.is_open or is_ramp(matter)):
            return replace(watch, met_since_ns=None, met_times=0)
        since_ns = matter.now_ns if watch.met_since_ns is None else watch.met_since_ns
        fresh = news or watch.met_since_ns is None
        return replace(watch, met_since_ns=since_ns, met_times=watch.met_times + fresh)

    def _targets(self, matter: Matter) -> tuple[str, ...]:
        then, incident = matter.policy.then, matter.incident
        if then.target is not None:
            return able(matter, targets_of(then.target, incident, matter.node, self.topology))
        if then.action in _ON_THE_INCIDENT:
            return (incident.entity_id,)
        return (node_of(self.topology) or incident.entity_id,)

    def _act(self, matter: Matter, targets: tuple[str, ...]) -> Decision | None:
        """Do what the policy asks for, or put it before a person."""
        then, incident = matter.policy.then, matter.incident
        verb = Verb(then.action.value)
        asks = matter.mode is Mode.ENFORCE and needs_person(matter.policy, self.limits)
        if then.action in KNOB_OF:
            found = plan(matter, targets)
            reach = reach_words(then.target, incident, self.topology)
            if reach and found.choice.setting is not None:
                found = replace(found, choice=replace(found.choice, reason=f"{found.choice.reason}; {reach}"))
            choice = found.choice
            asks = asks and choice.setting is not None
            approval = use_approval(matter, verb) if asks else None
            granted = found if approval is None else at_most(found, approval.setting)
            if granted is None or (asks and approval is None):
                return ask(matter, verb, targets, reason=choice.reason, setting=choice.setting, knob=found.knob)
            return set_claim(matter, granted, targets, approval)
        approval = use_approval(matter, verb) if asks else None
        if asks and approval is None:
            return ask(matter, verb, targets, reason=incident.summary)
        if then.action in _SWITCHES:
            return engage(matter, targets, approval)
        matter.note_acted()
        self._memory.watches[matter.key] = replace(matter.watch, done=True)
        self._memory.end(matter.key, incident.entity_id, matter.now_ns)
        return matter.decide(verb, targets, reason=incident.summary, approval=approval)

    def _stands(self, held: Claim | Engagement) -> bool:
        policy = self._by_id.get(held.policy_id)
        return held.enforced and policy is not None and self._mode(policy) is Mode.ENFORCE

    def _mode(self, policy: Policy) -> Mode:
        return self.limits.mode(policy.then.action, policy.then.mode)


def _worse(outcome: Outcome) -> bool:
    """Return True if the measured quantity is worse than before: a voltage fell, a temperature or a share rose."""
    if outcome.before is None or outcome.after is None:
        return False
    return outcome.after < outcome.before if outcome.higher_is_better else outcome.after > outcome.before
