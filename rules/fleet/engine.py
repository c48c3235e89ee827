"""The fleet's engine: incidents over many nodes in, decisions and orders for single nodes out, within its limits.

Pure, like the engine of a node: the same calls return the same orders. The caller writes the memory to disk before it
sends an order, and reports the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rules.fleet.decisions import decided, is_met, is_new, page, page_breaker, recover, refusals
from rules.fleet.holding import ASK_AGAIN_NS, is_climbed, note, outcomes, upkeep
from rules.fleet.memory import KEEP_NS, Awaited, ClaimState, FleetClaim, FleetMemory, Pending
from rules.fleet.orders import FleetIncident, FleetOrder, FleetStep, FleetView, OrderKind, OrderResult, StepContext
from rules.fleet.policy import FleetPolicy, NodeTarget
from rules.limits.fleet import FleetLimits
from rules.policy.model import ActionClass, PolicyStatus
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Incident, Mode, Verdict

# heuristic: a shift's attention; then a decision that waits for approval expires.
APPROVAL_NS = 3600 * NS_PER_S


@dataclass(slots=True, kw_only=True)
class _Out:
    """Result of a step so far."""

    orders: list[FleetOrder]
    decisions: list[Decision] = field(default_factory=list)


class FleetEngine:
    """Engine of one fleet service; one thread owns it."""

    def __init__(self, policies: Sequence[FleetPolicy], limits: FleetLimits, memory: FleetMemory) -> None:
        live = [policy for policy in policies if policy.status is not PolicyStatus.DEPRECATED]
        self._acting = tuple(policy for policy in live if policy.then.action is not ActionClass.NOTIFY)
        self._paging = tuple(policy for policy in live if policy.then.action is ActionClass.NOTIFY)
        self.limits = limits
        self.memory = memory

    def step(self, cases: Sequence[FleetIncident], fleet: FleetView, now_ns: int) -> FleetStep:
        """Process every incident that is not closed, and return decisions and orders."""
        memory = self.memory
        live = {case.incident.id: case for case in cases}
        at = StepContext(memory=memory, limits=self.limits, fleet=fleet, now_ns=now_ns)
        memory.set_back(now_ns)
        memory.ledger.forget(self.limits, now_ns)
        memory.shadow.forget(self.limits, now_ns)
        out = _Out(orders=list(upkeep(live, {policy.id: policy for policy in self._acting}, at)))
        tripped = ""
        for case in sorted(cases, key=lambda one: (one.incident.opened_ns, one.incident.id)):
            for policy in self._acting:
                if is_met(policy, case, at):
                    why = self._act(policy, case, at, out)
                    tripped = tripped or why
                    out.decisions += page_breaker(self._paging, case, why, at)
            out.decisions += page(self._paging, case, tripped, at)
        recover(frozenset(live), at)
        found = tuple(outcomes(live, at))
        memory.forget(frozenset(live), now_ns, keep_ns=KEEP_NS)
        return FleetStep(decisions=tuple(out.decisions), orders=tuple(out.orders), outcomes=found)

    def note(self, claim: FleetClaim, order_kind: OrderKind, answer: OrderResult, now_ns: int) -> None:
        """Record the result of an order on a node."""
        note(self.memory, FleetOrder(order_kind=order_kind, claim=claim), answer, now_ns)

    def note_sent(self, decision_id: str) -> None:
        """Record that a notification was sent."""
        self.memory.unsent = [page for page in self.memory.unsent if page.decision.id != decision_id]

    def answer_person(self, decision_id: str, *, approved: bool, now_ns: int) -> bool:
        """Approve or reject a waiting decision; return False if no such decision waits."""
        memory = self.memory
        for pair, pending in list(memory.pending.items()):
            if pending.decision_id == decision_id:
                del memory.pending[pair]
                if now_ns < pending.expires_ns:
                    (memory.approved if approved else memory.barred).add(pair)
                    return True
        return False

    def _act(self, policy: FleetPolicy, case: FleetIncident, at: StepContext, out: _Out) -> str:
        """Begin what the limits allow; return why the breaker tripped, an empty text if it did not."""
        memory, incident, fleet, now_ns = self.memory, case.incident, at.fleet, at.now_ns
        pair = (policy.id, incident.id)
        mode = self.limits.mode(policy.then.action, policy.then.mode)
        dry = () if mode is Mode.ENFORCE else {one.node for one in memory.shadow.begun}
        wanted = [node for node in _wanted(policy, case, at) if node not in dry]
        if not wanted or pair in memory.barred or is_climbed(pair, self._acting, memory):
            return ""
        kind, reason = self.limits.quiet(policy.then.action, incident.silence, now_ns)
        if kind:
            out.decisions += refusals(policy, incident, {kind: (reason, len(wanted))}, mode, at)
            return ""
        if self._waits(policy, incident, wanted, at, out):
            return ""
        enforced = mode is Mode.ENFORCE
        ledger = memory.ledger if enforced else memory.shadow
        begun, refused, tripped = [], dict[str, tuple[str, int]](), ""
        for node in wanted:
            tripped = tripped or ledger.want(node, self.limits, fleet_nodes=len(fleet.racks), now_ns=now_ns)
            kind, reason = ledger.refusal(
                node, fleet.racks[node], self.limits, fleet_nodes=len(fleet.racks), now_ns=now_ns
            )
            if kind:
                refused[kind] = reason, refused.get(kind, ("", 0))[1] + 1
            else:
                ledger.note_begun(node, fleet.racks[node], now_ns)
                begun.append(node)
        if begun and (enforced or is_new(policy, incident, mode.value, at)):
            decision = decided(policy, incident, begun, mode, at)
            out.decisions.append(decision)
            if enforced:
                out.orders += _begun(policy, incident, begun, decision, at)
        out.decisions += refusals(policy, incident, refused, mode, at)
        return tripped if enforced else ""

    def _waits(self, policy: FleetPolicy, incident: Incident, wanted: list[str], at: StepContext, out: _Out) -> bool:
        """Return True if the action still needs approval; a decision that has waited too long expires."""
        memory, pair = self.memory, (policy.id, incident.id)
        if policy.then.action not in self.limits.approval or pair in memory.approved:
            return False
        pending = memory.pending.get(pair)
        if pending is not None and at.now_ns >= pending.expires_ns:
            del memory.pending[pair]
            memory.barred.add(pair)
        elif pending is None:
            expires_ns = at.now_ns + APPROVAL_NS
            decision = decided(policy, incident, wanted, Mode.ENFORCE, at)
            out.decisions.append(replace(decision, verdict=Verdict.PENDING, expires_ns=expires_ns))
            memory.pending[pair] = Pending(
                decision_id=decision.id, policy_id=policy.id, incident_id=incident.id, expires_ns=expires_ns
            )
        return True


def _wanted(policy: FleetPolicy, case: FleetIncident, at: StepContext) -> Iterator[str]:
    """Yield the target nodes that report, and that this policy does not hold or has not just released."""
    memory, fleet = at.memory, at.fleet
    nodes = case.nodes if policy.then.target is NodeTarget.NODES_UNDER else case.nodes[:1]
    cooldown_ns = round(policy.then.cooldown_s * NS_PER_S)
    for node in sorted(nodes):
        ended_ns = memory.ended.get((policy.id, node))
        if (
            node in fleet.racks
            and node in fleet.reporting
            and (policy.id, case.incident.id, node) not in memory.claims
            and (ended_ns is None or at.now_ns - ended_ns >= cooldown_ns)
        ):
            yield node


def _begun(
    policy: FleetPolicy, incident: Incident, nodes: list[str], decision: Decision, at: StepContext
) -> Iterator[FleetOrder]:
    then, now_ns = policy.then, decision.time_ns
    for node in nodes:
        claim = FleetClaim(
            policy_id=policy.id,
            incident_id=incident.id,
            node=node,
            rack=at.fleet.racks[node],
            action=then.action,
            ratio=then.ratio,
            lease_s=then.lease_s,
            decision_id=decision.id,
            begun_ns=now_ns,
            state=ClaimState.RESERVED,
            due_ns=now_ns + ASK_AGAIN_NS,
            reason=incident.summary[:300],
        )
        at.memory.claims[claim.key] = claim
        yield FleetOrder(order_kind=OrderKind.BEGIN, claim=claim)
    at.memory.awaited.setdefault(
        (policy.id, incident.id),
        Awaited(
            decision_id=decision.id,
            due_ns=now_ns + round(then.settle_s * NS_PER_S),
            before=incident.number("nodes"),
        ),
    )
