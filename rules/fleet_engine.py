"""The fleet's engine: incidents over many nodes in, decisions and orders for single nodes out, within the rails.

Pure, as the engine of a node is: the same calls give the same orders. Whoever carries them out keeps the memory on disk
before anything is asked, and tells what came of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rules.facts import facts_of
from rules.fleet_memory import Awaited, ClaimState, FleetClaim, FleetMemory, Pair, Pending, Word
from rules.fleet_policy import FleetPolicy, NodeTarget
from rules.fleet_rails import FleetRails
from rules.policy import ActionClass, PolicyStatus
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Incident, IncidentState, Mode, Outcome, Verdict

# Leases are renewed four times before they run out, as on a node.
RENEWALS_PER_LEASE = 4
# Own choice: what nobody answered is asked again after this.
ASK_AGAIN_NS = 10 * NS_PER_S
# Own choice: a shift's attention; then a decision that waits for a person is over.
APPROVAL_NS = 3600 * NS_PER_S
# Longer than any cooldown that makes sense. own choice.
KEEP_NS = 86_400 * NS_PER_S
_SHOWN = 4
_VERDICTS = {Mode.ENFORCE: Verdict.EXECUTE, Mode.RECOMMEND: Verdict.RECOMMEND, Mode.OBSERVE: Verdict.OBSERVE}


class FleetDeed(StrEnum):
    """What is to be done."""

    BEGIN = "begin"
    RENEW = "renew"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetIncident:
    """One incident that is not closed, and the nodes under its entity."""

    incident: Incident
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The members of the fleet with their racks, empty where unknown, and which of them have values now."""

    racks: dict[str, str]
    heard: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOrder:
    """One thing to do on a node for a claim."""

    deed: FleetDeed
    claim: FleetClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStep:
    """What one step gave."""

    decisions: tuple[Decision, ...] = ()
    orders: tuple[FleetOrder, ...] = ()
    outcomes: tuple[Outcome, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Out:
    """What a step has gathered so far."""

    orders: list[FleetOrder]
    decisions: list[Decision] = field(default_factory=list)


class Answered(StrEnum):
    """What came of an order: done, refused for good, lost what stood there, or no answer."""

    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"
    SILENT = "silent"


class FleetEngine:
    """Decides for one fleet service; one thread owns it."""

    def __init__(self, policies: Sequence[FleetPolicy], rails: FleetRails, memory: FleetMemory) -> None:
        live = [policy for policy in policies if policy.status is not PolicyStatus.DEPRECATED]
        self._acting = tuple(policy for policy in live if policy.then.action is not ActionClass.NOTIFY)
        self._paging = tuple(policy for policy in live if policy.then.action is ActionClass.NOTIFY)
        self.rails = rails
        self.memory = memory

    def step(self, cases: Sequence[FleetIncident], fleet: FleetView, now_ns: int) -> FleetStep:
        """Take every incident that is not closed, and decide."""
        memory = self.memory
        live = {case.incident.id: case for case in cases}
        memory.set_back(now_ns)
        memory.ledger.forget(self.rails, now_ns)
        memory.shadow.forget(self.rails, now_ns)
        out = _Out(orders=list(self._upkeep(live, fleet, now_ns)))
        tripped = ""
        for case in sorted(cases, key=lambda one: (one.incident.opened_ns, one.incident.id)):
            for policy in self._acting:
                if self._is_met(policy, case, now_ns):
                    words = self._act(policy, case, fleet, now_ns, out)
                    tripped = tripped or words
                    self._page_breaker(case, words, now_ns, out)
            self._page(case, tripped, now_ns, out)
        self._recover(live, now_ns)
        outcomes = tuple(self._outcomes(live, now_ns))
        memory.forget(frozenset(live), now_ns, keep_ns=KEEP_NS)
        return FleetStep(decisions=tuple(out.decisions), orders=tuple(out.orders), outcomes=outcomes)

    def note(self, claim: FleetClaim, deed: FleetDeed, answer: Answered, now_ns: int) -> None:
        """Learn what came of an order on a node."""
        memory = self.memory
        now = memory.claims.get(claim.key)
        if now is None:
            return
        if deed is FleetDeed.END:
            if answer is Answered.SILENT:
                memory.claims[claim.key] = replace(now, due_ns=now_ns + ASK_AGAIN_NS)
            else:
                self._end(now, now_ns)
        elif answer is Answered.DONE:
            due_ns = now_ns + round(now.lease_s / RENEWALS_PER_LEASE * NS_PER_S)
            memory.claims[claim.key] = replace(now, state=ClaimState.HELD, due_ns=due_ns)
        elif answer is Answered.SILENT:
            memory.claims[claim.key] = replace(now, due_ns=now_ns + ASK_AGAIN_NS)
        elif answer is Answered.REFUSED:  # one before that nobody answered may have been carried out
            memory.claims[claim.key] = replace(now, state=ClaimState.LEAVING, due_ns=now_ns)
        else:
            self._end(now, now_ns)

    def note_sent(self, decision_id: str) -> None:
        """Learn that a word to people went out."""
        self.memory.unsent = [word for word in self.memory.unsent if word.decision.id != decision_id]

    def answer_person(self, decision_id: str, *, approved: bool, now_ns: int) -> bool:
        """Take a person's word on a decision that waits; False where none of that name does."""
        memory = self.memory
        for pair, pending in list(memory.pending.items()):
            if pending.decision_id == decision_id:
                del memory.pending[pair]
                if now_ns < pending.expires_ns:
                    (memory.approved if approved else memory.barred).add(pair)
                    return True
        return False

    def _end(self, claim: FleetClaim, now_ns: int) -> None:
        self.memory.claims.pop(claim.key, None)
        self.memory.ended[claim.policy_id, claim.node] = now_ns

    def _is_met(self, policy: FleetPolicy, case: FleetIncident, now_ns: int) -> bool:
        """Say whether a policy's condition was met without a break for as long as it asks."""
        incident, since = case.incident, self.memory.met_since
        pair = (policy.id, incident.id)
        met = incident.state is IncidentState.OPEN and policy.when.judge(facts_of(incident)).met
        if policy.after is not None:
            awaited = self.memory.awaited.get((policy.after, incident.id))
            met = met and awaited is not None and awaited.helped is False
        if not met:
            since.pop(pair, None)
            return False
        return now_ns - since.setdefault(pair, now_ns) >= policy.then.hold_s * NS_PER_S

    def _act(self, policy: FleetPolicy, case: FleetIncident, fleet: FleetView, now_ns: int, out: _Out) -> str:
        """Begin what the rails allow; gives why the breaker tripped, where it did."""
        memory, incident = self.memory, case.incident
        pair = (policy.id, incident.id)
        mode = self.rails.mode(policy.then.action, policy.then.mode)
        dry = () if mode is Mode.ENFORCE else {one.node for one in memory.shadow.begun}
        wanted = [node for node in self._wanted(policy, case, fleet, now_ns) if node not in dry]
        if not wanted or pair in memory.barred or self._is_climbed(pair):
            return ""
        kind, words = self.rails.quiet(policy.then.action, incident.silence, now_ns)
        if kind:
            out.decisions += self._refusals(policy, incident, {kind: (words, len(wanted))}, mode, now_ns)
            return ""
        if self._waits(policy, incident, wanted, now_ns, out):
            return ""
        enforced = mode is Mode.ENFORCE
        ledger = memory.ledger if enforced else memory.shadow
        begun, refused, tripped = [], dict[str, tuple[str, int]](), ""
        for node in wanted:
            tripped = tripped or ledger.want(node, self.rails, fleet_nodes=len(fleet.racks), now_ns=now_ns)
            kind, words = ledger.refusal(
                node, fleet.racks[node], self.rails, fleet_nodes=len(fleet.racks), now_ns=now_ns
            )
            if kind:
                refused[kind] = words, refused.get(kind, ("", 0))[1] + 1
            else:
                ledger.note_begun(node, fleet.racks[node], now_ns)
                begun.append(node)
        if begun and (enforced or self._says(policy, incident, mode.value)):
            decision = self._decided(policy, incident, begun, mode, now_ns)
            out.decisions.append(decision)
            if enforced:
                out.orders += self._begun(policy, incident, begun, fleet, decision)
        out.decisions += self._refusals(policy, incident, refused, mode, now_ns)
        return tripped if enforced else ""

    def _is_climbed(self, pair: Pair) -> bool:
        """Say whether this rung did not help and one stands above it: then no more of it begins."""
        awaited = self.memory.awaited.get(pair)
        failed = awaited is not None and awaited.helped is False
        return failed and any(policy.after == pair[0] for policy in self._acting)

    def _wanted(self, policy: FleetPolicy, case: FleetIncident, fleet: FleetView, now_ns: int) -> Iterator[str]:
        """Give the nodes that are meant, answer, and are not acted on by this policy already or just before."""
        memory = self.memory
        nodes = case.nodes if policy.then.target is NodeTarget.NODES_UNDER else case.nodes[:1]
        cooldown_ns = round(policy.then.cooldown_s * NS_PER_S)
        for node in sorted(nodes):
            ended_ns = memory.ended.get((policy.id, node))
            if (
                node in fleet.racks
                and node in fleet.heard
                and (policy.id, case.incident.id, node) not in memory.claims
                and (ended_ns is None or now_ns - ended_ns >= cooldown_ns)
            ):
                yield node

    def _waits(self, policy: FleetPolicy, incident: Incident, wanted: list[str], now_ns: int, out: _Out) -> bool:
        """Say whether a person has to say yes first; a decision that has waited for too long is over."""
        memory, pair = self.memory, (policy.id, incident.id)
        if policy.then.action not in self.rails.approval or pair in memory.approved:
            return False
        pending = memory.pending.get(pair)
        if pending is not None and now_ns >= pending.expires_ns:
            del memory.pending[pair]
            memory.barred.add(pair)
        elif pending is None:
            expires_ns = now_ns + APPROVAL_NS
            decision = self._decided(policy, incident, wanted, Mode.ENFORCE, now_ns)
            out.decisions.append(replace(decision, verdict=Verdict.PENDING, expires_ns=expires_ns))
            memory.pending[pair] = Pending(
                decision_id=decision.id, policy_id=policy.id, incident_id=incident.id, expires_ns=expires_ns
            )
        return True

    def _begun(
        self, policy: FleetPolicy, incident: Incident, nodes: list[str], fleet: FleetView, decision: Decision
    ) -> Iterator[FleetOrder]:
        then, now_ns = policy.then, decision.time_ns
        for node in nodes:
            claim = FleetClaim(
                policy_id=policy.id,
                incident_id=incident.id,
                node=node,
                rack=fleet.racks[node],
                action=then.action,
                clock_ratio=then.clock_ratio,
                lease_s=then.lease_s,
                decision_id=decision.id,
                begun_ns=now_ns,
                state=ClaimState.RESERVED,
                due_ns=now_ns + ASK_AGAIN_NS,
                reason=incident.summary[:300],
            )
            self.memory.claims[claim.key] = claim
            yield FleetOrder(deed=FleetDeed.BEGIN, claim=claim)
        pair = (policy.id, incident.id)
        self.memory.awaited.setdefault(
            pair,
            Awaited(
                decision_id=decision.id,
                due_ns=now_ns + round(then.settle_s * NS_PER_S),
                before=incident.number("nodes"),
            ),
        )

    def _upkeep(self, live: dict[str, FleetIncident], fleet: FleetView, now_ns: int) -> Iterator[FleetOrder]:
        """Renew what holds, ask again what was not answered, and give back one node after the other what is over."""
        memory = self.memory
        policies = {policy.id: policy for policy in self._acting}
        for claim in sorted(memory.claims.values(), key=lambda one: one.key):
            case = live.get(claim.incident_id)
            policy = policies.get(claim.policy_id)
            if claim.state is not ClaimState.LEAVING and self._may_leave(claim, case, policy, now_ns):
                memory.released_ns = now_ns
                claim = replace(claim, state=ClaimState.LEAVING, due_ns=now_ns)  # noqa: PLW2901 -- the same, later
                memory.claims[claim.key] = claim
            if now_ns < claim.due_ns:
                continue
            if claim.state is ClaimState.RESERVED:
                claim = self._counted_anew(claim, fleet, now_ns)  # noqa: PLW2901 -- the same, later
            memory.claims[claim.key] = replace(claim, due_ns=now_ns + ASK_AGAIN_NS)
            deed = {ClaimState.LEAVING: FleetDeed.END, ClaimState.HELD: FleetDeed.RENEW}.get(
                claim.state, FleetDeed.BEGIN
            )
            yield FleetOrder(deed=deed, claim=claim)

    def _counted_anew(self, claim: FleetClaim, fleet: FleetView, now_ns: int) -> FleetClaim:
        """Count what is asked for again as begun now; where no budget is left it is given back instead."""
        ledger = self.memory.ledger
        ledger.take_back(claim.node, claim.begun_ns)
        nodes = len(fleet.racks)
        kind, _ = ledger.refusal(claim.node, claim.rack, self.rails, fleet_nodes=nodes, now_ns=now_ns)
        ledger.note_begun(claim.node, claim.rack, now_ns)  # it may have begun, whatever is asked now
        if kind:
            return replace(claim, state=ClaimState.LEAVING, begun_ns=now_ns)
        return replace(claim, begun_ns=now_ns)

    def _may_leave(
        self, claim: FleetClaim, case: FleetIncident | None, policy: FleetPolicy | None, now_ns: int
    ) -> bool:
        memory = self.memory
        if case is not None and case.incident.state is IncidentState.OPEN:
            memory.quiet.pop(claim.incident_id, None)
            return False
        since_ns = memory.quiet.setdefault(claim.incident_id, now_ns)
        if memory.ledger.breaker is not None:
            return False  # nothing is changed until a person has looked; what holds is renewed
        if policy is None:
            return True
        after_ns, every_ns = (
            round(one * NS_PER_S) for one in (policy.then.release_after_s, policy.then.release_every_s)
        )
        return now_ns - since_ns >= after_ns and now_ns - memory.released_ns >= every_ns

    def _page(self, case: FleetIncident, tripped: str, now_ns: int, out: _Out) -> None:
        """Tell people of an incident, once: a breaker that trips for it is told in the same breath."""
        memory, incident = self.memory, case.incident
        for policy in self._paging:
            key = (policy.id, incident.entity_id)
            if incident.id in memory.told or not self._is_met(policy, case, now_ns):
                continue
            if any(self.rails.quiet(ActionClass.NOTIFY, incident.silence, now_ns)):
                continue
            if now_ns - memory.paged.get(key, -KEEP_NS) < policy.then.cooldown_s * NS_PER_S:
                continue
            mode = self.rails.mode(ActionClass.NOTIFY, policy.then.mode)
            words = f"{incident.summary}; {tripped}: the breaker tripped, and a person must reset it" if tripped else ""
            decision = self._decided(policy, incident, [], mode, now_ns, reason=words or incident.summary)
            memory.paged[key] = now_ns
            memory.told[incident.id] = policy.id
            out.decisions.append(decision)
            if mode is Mode.ENFORCE:
                memory.unsent.append(Word(decision=decision, incident=incident))

    def _page_breaker(self, case: FleetIncident, tripped: str, now_ns: int, out: _Out) -> None:
        """Tell people of a breaker that trips for an incident which they know of already."""
        memory, incident = self.memory, case.incident
        if not tripped or incident.id not in memory.told:
            return
        for policy in self._paging[:1]:
            mode = self.rails.mode(ActionClass.NOTIFY, policy.then.mode)
            reason = f"the fleet's breaker tripped: {tripped}; a person must reset it"
            decision = replace(
                self._decided(policy, incident, [], mode, now_ns, reason=reason),
                id=f"fleet-breaker:{incident.id}:{now_ns}",
                rule="fleet-breaker",
            )
            out.decisions.append(decision)
            if mode is Mode.ENFORCE:
                memory.unsent.append(Word(decision=decision, incident=incident))

    def _recover(self, live: dict[str, FleetIncident], now_ns: int) -> None:
        """Tell those who were told that it is over."""
        for incident_id, policy_id in list(self.memory.told.items()):
            if incident_id not in live:
                del self.memory.told[incident_id]
                decision = Decision(
                    id=f"{policy_id}:{incident_id}:{now_ns}",
                    time_ns=now_ns,
                    rule=policy_id,
                    incident_id=incident_id,
                    action=ActionClass.NOTIFY.value,
                    targets=(),
                    clock_mhz=None,
                    lease_s=None,
                    mode=Mode.ENFORCE,
                    verdict=Verdict.EXECUTE,
                    reason="it is over",
                )
                self.memory.unsent.append(Word(decision=decision, incident=None, recovery=True))

    def _outcomes(self, live: dict[str, FleetIncident], now_ns: int) -> Iterator[Outcome]:
        """Compare how many nodes deviate with how many did, once an action has had its time."""
        for pair, awaited in list(self.memory.awaited.items()):
            if awaited.helped is not None or now_ns < awaited.due_ns:
                continue
            case = live.get(pair[1])
            still = case is not None and case.incident.state is IncidentState.OPEN
            after = case.incident.number("nodes") if case is not None and still else 0.0
            helped = not still or (awaited.before is not None and after is not None and after < awaited.before)
            self.memory.awaited[pair] = replace(awaited, helped=helped)
            yield Outcome(
                id=f"{awaited.decision_id}:outcome",
                time_ns=now_ns,
                incident_id=pair[1],
                decision_id=awaited.decision_id,
                measure="nodes",
                unit="",
                before=awaited.before,
                after=after,
                helped=helped,
                summary=f"nodes that deviate: {_number(awaited.before)} before, {_number(after)} after",
            )

    def _refusals(
        self, policy: FleetPolicy, incident: Incident, refused: dict[str, tuple[str, int]], mode: Mode, now_ns: int
    ) -> Iterator[Decision]:
        for kind, (words, count) in refused.items():
            if self._says(policy, incident, kind):
                reason = f"{words}; {count} node{'s' if count > 1 else ''} left as they are"
                decision = self._decided(policy, incident, [], mode, now_ns, reason=reason)
                yield replace(
                    decision, id=f"{decision.id}:{kind}", verdict=Verdict.REFUSE, targets=(incident.entity_id,)
                )

    def _says(self, policy: FleetPolicy, incident: Incident, kind: str) -> bool:
        one = (policy.id, incident.id, kind)
        new = one not in self.memory.said
        self.memory.said.add(one)
        return new

    def _decided(
        self,
        policy: FleetPolicy,
        incident: Incident,
        nodes: Sequence[str],
        mode: Mode,
        now_ns: int,
        *,
        reason: str = "",
    ) -> Decision:
        more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        ratio = policy.then.clock_ratio
        what = "" if ratio is None else f"{ratio:.0%} of the highest clock, "
        return Decision(
            id=f"{policy.id}:{incident.id}:{now_ns}",
            time_ns=now_ns,
            rule=policy.id,
            incident_id=incident.id,
            action=policy.then.action.value,
            targets=tuple(f"node:{node}" for node in nodes) or (incident.entity_id,),
            clock_mhz=None,
            lease_s=policy.then.lease_s if policy.then.action is ActionClass.CLOCK_CAP else None,
            mode=mode,
            verdict=_VERDICTS[mode],
            reason=reason or f"{what}{', '.join(nodes[:_SHOWN])}{more}: {incident.summary}",
        )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
