"""The engine: incidents in, decisions out, within the rails.

It keeps state between steps and nothing else: no clock, no file, no hardware. The same calls give the same decisions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rules.cap import bases_of, choose_clock, describe, safe_clock, voltage_cap
from rules.claims import Claim, Watch
from rules.conditions import facts_of
from rules.decisions import decide, decision_id, policy_of, refuse
from rules.memory import Memory, restore_memory
from rules.node import NodeState
from rules.policy import Policy, PolicyStatus, Verb
from rules.rails import Breaker, Rails
from rules.refusals import Standing, breaker_words, refusals
from rules.relaxing import relax
from rules.targets import common_clocks_mhz, supplies_of_incident, targets_of
from rules.tightening import tighten
from telemetry.clock import NS_PER_S
from telemetry.entities import Topology
from telemetry.records import Action, ActionState, Decision, Incident, IncidentState, Mode

# A claim that is not enforced is told anew only where the clock it would take is this much lower: nobody holds the
# symptom down meanwhile, so its evidence goes on moving.
_SHADOW_STEP = 0.05


class Engine:
    """Decides for one node.

    Parameters
    ----------
    policies
        In order of precedence; deprecated ones are left out.
    rails
        The limits; may be replaced between steps.
    topology
        Which supply feeds which GPU.
    """

    def __init__(self, policies: Sequence[Policy], *, rails: Rails, topology: Topology) -> None:
        self._policies = tuple(policy for policy in policies if policy.status is not PolicyStatus.DEPRECATED)
        self._topology = topology
        self._memory = Memory()
        self.rails = rails

    @property
    def breaker(self) -> Breaker | None:
        """The tripped breaker, None while it is whole."""
        return self._memory.breaker

    @property
    def latched(self) -> tuple[tuple[str, str, str], ...]:
        """Policy, entity and reason of every cap that is no longer relaxed."""
        return tuple((*key, why) for key, why in self._memory.latched.items())

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The caps that ought to stand in the hardware now: whoever carries them out renews their leases."""
        modes = {policy.id: self._mode(policy) for policy in self._policies}
        held = self._memory.claims.values()
        return tuple(claim for claim in held if claim.enforced and modes[claim.policy_id] is Mode.ENFORCE)

    def step(self, incidents: Sequence[Incident], node: NodeState, now_ns: int) -> tuple[Decision, ...]:
        """Take the incidents that are new or changed, or all of them, and decide.

        Call it at every tick while an incident is live, for holding and relaxing take time to pass, not news. At most
        one decision per policy and incident comes of a step.
        """
        known = self._memory.incidents
        known.update({incident.id: incident for incident in incidents})
        if not known:
            return ()
        decisions = []
        for incident in sorted(known.values(), key=lambda item: (item.opened_ns, item.id)):
            for policy in self._policies:
                decision = self._advance(policy, incident, node, now_ns)
                if decision is not None:
                    decisions.append(decision)
        self._memory.forget(now_ns)
        return tuple(decisions)

    def note_action(self, action: Action) -> None:
        """Learn what became of a decision."""
        if action.mode is not Mode.ENFORCE:
            return
        memory = self._memory
        key = (policy_of(action.decision_id), action.incident_id)
        if action.state in (ActionState.FAILED, ActionState.REFUSED):
            memory.failed = tuple(dict.fromkeys((*memory.failed, action.decision_id)))
            if len(memory.failed) >= self.rails.failures_before_trip:
                self.trip(f"{len(memory.failed)} decisions in a row failed: {action.reason}", now_ns=action.time_ns)
        elif action.state in (ActionState.APPLIED, ActionState.RENEWED, ActionState.RELAXED):
            memory.failed = ()
        elif key in memory.claims and action.entity_id in memory.claims[key].gpus:  # gone, and not by our word
            memory.keep(key, memory.claims[key].without(action.entity_id), action.time_ns)

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

    def reset_breaker(self) -> None:
        """Go on, and relax again what was latched; only a person may ask for it."""
        self._memory.breaker = None
        self._memory.failed = ()
        self._memory.returns = {}
        self._memory.latched = {}

    def snapshot(self) -> dict[str, Any]:
        """Give the whole state as JSON types."""
        return self._memory.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot; ValueError where it is none.

        Dropped is what belongs to a policy that is gone, and a cap that was enforced under a mode which now says
        less: its incident is judged anew, in the mode in force.
        """
        self._memory = restore_memory(state, policies=frozenset(policy.id for policy in self._policies))
        said = {claim.decision_id for claim in self.claims}
        held = self._memory.claims.items()
        self._memory.claims = {key: claim for key, claim in held if not claim.enforced or claim.decision_id in said}

    def _advance(self, policy: Policy, incident: Incident, node: NodeState, now_ns: int) -> Decision | None:
        claim = self._memory.claims.get((policy.id, incident.id))
        if claim is None:
            return self._consider(policy, incident, node, now_ns)
        if not claim.enforced:
            return self._shadow(policy, claim, incident, node, now_ns)
        is_open = incident.state is IncidentState.OPEN
        quiet_ns = None if is_open else now_ns if claim.quiet_since_ns is None else claim.quiet_since_ns
        claim = self._memory.claims[policy.id, incident.id] = replace(claim, quiet_since_ns=quiet_ns)
        if self._mode(policy) is not Mode.ENFORCE:
            return None  # a person lowered the mode: hands off, and the lease or the person ends it
        follow = self._tighten if is_open else self._relax
        return follow(policy, claim, incident, node, now_ns)

    def _consider(self, policy: Policy, incident: Incident, node: NodeState, now_ns: int) -> Decision | None:
        key = (policy.id, incident.id)
        watch = self._memory.watches.get(key, Watch())
        if watch.judged_ns != incident.time_ns:
            watch = replace(watch, judged_ns=incident.time_ns, judgement=policy.when.judge(facts_of(incident)))
        live = incident.state is IncidentState.OPEN
        since_ns = None
        if live and watch.judgement.met:
            since_ns = now_ns if watch.met_since_ns is None else watch.met_since_ns
        self._memory.watches[key] = replace(watch, met_since_ns=since_ns)
        if not live or watch.done:
            return None
        if watch.judgement.doubt is not None:
            return self._refuse(policy, incident, "doubt", watch.judgement.doubt, now_ns)
        if since_ns is None or now_ns - since_ns < policy.then.hold_s * NS_PER_S:
            return None
        wanted = policy.then.target
        targets = (incident.entity_id,) if wanted is None else targets_of(wanted, incident, node, self._topology)
        standing = self._standing(policy, incident)
        refusal = next(refusals(policy, incident, targets, self.rails, standing, now_ns=now_ns), None)
        if refusal is not None:
            return self._refuse(policy, incident, *refusal, now_ns)
        if policy.then.clock is None:
            return self._notify(policy, incident, targets, now_ns)
        return self._fire(policy, incident, node, targets, now_ns)

    def _notify(self, policy: Policy, incident: Incident, targets: Sequence[str], now_ns: int) -> Decision:
        key = (policy.id, incident.id)
        self._note_acted(policy, key, now_ns)
        self._memory.watches[key] = replace(self._memory.watches[key], done=True)
        self._memory.end(key, incident.entity_id, now_ns)
        mode = self._mode(policy)
        return decide(policy, incident, Verb.NOTIFY, targets, mode=mode, reason=incident.summary, now_ns=now_ns)

    def _fire(
        self, policy: Policy, incident: Incident, node: NodeState, targets: tuple[str, ...], now_ns: int
    ) -> Decision | None:
        if policy.then.clock is None:
            raise ValueError(f"{policy.id} has no clock to set")
        key, memory = (policy.id, incident.id), self._memory
        gpus = [gpu for name in targets if (gpu := node.gpu(name)) is not None]
        caps = [cap_mhz for claim in memory.claims.values() for gpu, cap_mhz in claim.clocks if gpu in targets]
        choice = choose_clock(
            policy.then.clock,
            incident,
            node,
            targets=targets,
            topology=self._topology,
            clocks_mhz=common_clocks_mhz(gpus, min_clock_ratio=self.rails.min_clock_ratio),
            in_force_mhz=min(caps, default=max(gpu.max_clock_mhz for gpu in gpus)),
        )
        if choice.clock_mhz is None:
            return self._refuse(policy, incident, "needless", choice.reason, now_ns)
        self._note_acted(policy, key, now_ns)
        if (policy.id, incident.entity_id) in memory.ended and self._mode(policy) is Mode.ENFORCE:
            memory.note_return(policy.id, incident.entity_id, now_ns, most=self.rails.cycles_per_day)
        claim = Claim(
            policy_id=policy.id,
            incident_id=incident.id,
            entity_id=incident.entity_id,
            decision_id=decision_id(policy.id, incident.id, now_ns),
            mode=self._mode(policy),
            lease_s=policy.then.lease_s or 0.0,
            clocks=tuple((gpu, choice.clock_mhz) for gpu in targets),
            held_mhz=choice.clock_mhz,
            tightened_ns=now_ns,
            bases=choice.bases,
            supplies=supplies_of_incident(incident),
        )
        return self._cap(policy, claim, incident, node, clock_mhz=choice.clock_mhz, reason=choice.reason, now_ns=now_ns)

    def _shadow(
        self, policy: Policy, claim: Claim, incident: Incident, node: NodeState, now_ns: int
    ) -> Decision | None:
        """Follow a claim that is told and not carried out."""
        key = (policy.id, incident.id)
        if incident.state is not IncidentState.OPEN:
            self._memory.end(key, incident.entity_id, now_ns)
            return None
        if claim.mode is not self._mode(policy):
            del self._memory.claims[key]
            return self._consider(policy, incident, node, now_ns)
        clocks_mhz = self._clocks_mhz(claim, node)
        hold_v = _hold_v(policy)
        if not clocks_mhz or not claim.bases or hold_v is None:
            return None
        answer = voltage_cap(claim.bases, incident, node, clocks_mhz=clocks_mhz, hold_v=hold_v)
        if answer.clock_mhz >= claim.lowest_mhz * (1.0 - _SHADOW_STEP):
            return None
        return self._cap(
            policy, claim, incident, node, clock_mhz=answer.clock_mhz, reason=describe(answer, hold_v), now_ns=now_ns
        )

    def _tighten(
        self, policy: Policy, claim: Claim, incident: Incident, node: NodeState, now_ns: int
    ) -> Decision | None:
        key, memory = (policy.id, incident.id), self._memory
        clocks_mhz = self._clocks_mhz(claim, node)
        if not clocks_mhz:
            return None
        if memory.breaker is not None:
            return self._refuse(policy, incident, "breaker", breaker_words(memory.breaker), now_ns)
        if not claim.bases and _hold_v(policy) is not None and _settled(claim, policy, now_ns):
            # The evidence was too thin when the cap was set; by now it shows the capped load, which will do as well.
            bases, _ = bases_of(incident, node, targets=claim.gpus, topology=self._topology)
            claim = memory.claims[key] = replace(claim, bases=bases)
        step = tighten(claim, policy.then, incident, node, self.rails, clocks_mhz=clocks_mhz, now_ns=now_ns)
        if step.clock_mhz is None:
            return self._refuse(policy, incident, "exhausted", step.reason, now_ns) if step.exhausted else None
        memory.watches[key] = replace(memory.watches[key], refused=None)
        if step.returned:
            memory.note_return(policy.id, incident.entity_id, now_ns, most=self.rails.cycles_per_day)
        return self._cap(policy, claim, incident, node, clock_mhz=step.clock_mhz, reason=step.reason, now_ns=now_ns)

    def _relax(self, policy: Policy, claim: Claim, incident: Incident, node: NodeState, now_ns: int) -> Decision | None:
        key, memory = (policy.id, incident.id), self._memory
        clocks_mhz = self._clocks_mhz(claim, node)
        if not clocks_mhz:
            return None
        if memory.breaker is not None:
            return self._refuse(policy, incident, "breaker", breaker_words(memory.breaker), now_ns)
        latch = memory.latched.get((policy.id, incident.entity_id))
        if latch is not None:
            return self._refuse(policy, incident, "latched", f"the cap stays: {latch}", now_ns)
        step = relax(claim, policy.then, incident, node, self.rails, clocks_mhz=clocks_mhz, now_ns=now_ns)
        memory.claims[key] = step.claim
        if step.refused is not None:
            return self._refuse(policy, incident, "relax", f"the cap stays: {step.refused}", now_ns)
        if step.gpu is None:
            return None
        verb = Verb.CLOCK_RELEASE if step.clock_mhz is None else Verb.CLOCK_RELAX
        new_id = decision_id(policy.id, incident.id, now_ns)
        memory.watches[key] = replace(memory.watches[key], refused=None)
        memory.keep(key, step.claim.relaxed(step.gpu, step.clock_mhz, decision_id=new_id, now_ns=now_ns), now_ns)
        return decide(
            policy,
            incident,
            verb,
            (step.gpu,),
            mode=Mode.ENFORCE,
            reason=step.reason,
            clock_mhz=step.clock_mhz,
            now_ns=now_ns,
        )

    def _cap(
        self,
        policy: Policy,
        claim: Claim,
        incident: Incident,
        node: NodeState,
        *,
        clock_mhz: float,
        reason: str,
        now_ns: int,
    ) -> Decision:
        """Set one clock on all GPUs of a claim and keep it."""
        safe_mhz = safe_clock(
            claim.bases,
            incident,
            node,
            clocks_mhz=self._clocks_mhz(claim, node),
            hold_v=_hold_v(policy),
            resistance_ratio=self.rails.safe_resistance_ratio,
        )
        new_id = decision_id(policy.id, incident.id, now_ns)
        claim = replace(claim, safe_mhz=safe_mhz).tightened(clock_mhz, decision_id=new_id, now_ns=now_ns)
        self._memory.claims[policy.id, incident.id] = claim
        return decide(
            policy,
            incident,
            Verb.CLOCK_CAP,
            claim.gpus,
            mode=claim.mode,
            reason=reason,
            clock_mhz=clock_mhz,
            now_ns=now_ns,
        )

    def _refuse(self, policy: Policy, incident: Incident, kind: str, reason: str, now_ns: int) -> Decision | None:
        """Say once that and why nothing is done; None where it has been said."""
        watch = self._memory.watches.get((policy.id, incident.id), Watch())
        if watch.refused == kind:
            return None
        self._memory.watches[policy.id, incident.id] = replace(watch, refused=kind)
        return refuse(policy, incident, mode=self._mode(policy), reason=reason, now_ns=now_ns)

    def _standing(self, policy: Policy, incident: Incident) -> Standing:
        memory = self._memory
        return Standing(
            breaker=memory.breaker,
            barred=memory.watches[policy.id, incident.id].barred,
            ended_ns=memory.ended.get((policy.id, incident.entity_id)),
            acted=memory.acted,
            capped=frozenset(gpu for claim in memory.claims.values() for gpu in claim.gpus),
        )

    def _mode(self, policy: Policy) -> Mode:
        return self.rails.mode(policy.then.action, policy.then.mode)

    def _clocks_mhz(self, claim: Claim, node: NodeState) -> tuple[float, ...]:
        """Give the clocks of those of its GPUs that answer, nothing where none does."""
        gpus = [gpu for name in claim.gpus if (gpu := node.gpu(name)) is not None]
        return common_clocks_mhz(gpus, min_clock_ratio=self.rails.min_clock_ratio) if gpus else ()

    def _note_acted(self, policy: Policy, key: tuple[str, str], now_ns: int) -> None:
        self._memory.acted.append((policy.then.action, now_ns))
        self._memory.watches[key] = replace(self._memory.watches[key], refused=None)


def _settled(claim: Claim, policy: Policy, now_ns: int) -> bool:
    return now_ns - claim.tightened_ns >= policy.then.settle_s * NS_PER_S


def _hold_v(policy: Policy) -> float | None:
    return None if policy.then.clock is None else policy.then.clock.hold_v
