"""Claims of the fleet on nodes: renewal, repeated requests, release one after the other; and their symptom checks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rules.fleet.memory import ClaimState, FleetClaim, FleetMemory, Pair
from rules.fleet.orders import FleetIncident, FleetOrder, OrderKind, OrderResult, StepContext
from rules.fleet.policy import FleetPolicy
from telemetry.clock import NS_PER_S
from telemetry.records import IncidentState, Outcome

# Leases are renewed four times before they run out, as on a node.
RENEWALS_PER_LEASE = 4
# heuristic: a request without an answer is sent again after this.
ASK_AGAIN_NS = 10 * NS_PER_S
_VERBS = {
    ClaimState.RESERVED: OrderKind.BEGIN,
    ClaimState.HELD: OrderKind.RENEW,
    ClaimState.LEAVING: OrderKind.END,
}


def upkeep(
    live: Mapping[str, FleetIncident], policies: Mapping[str, FleetPolicy], at: StepContext
) -> Iterator[FleetOrder]:
    """Yield the orders that are due for the claims on nodes."""
    memory, now_ns = at.memory, at.now_ns
    for claim in sorted(memory.claims.values(), key=lambda one: one.key):
        case, policy = live.get(claim.incident_id), policies.get(claim.policy_id)
        if claim.state is not ClaimState.LEAVING and _may_leave(claim, case, policy, at):
            memory.released_ns = now_ns
            claim = replace(claim, state=ClaimState.LEAVING, due_ns=now_ns)  # noqa: PLW2901 -- the same, later
            memory.claims[claim.key] = claim
        if now_ns < claim.due_ns:
            continue
        if claim.state is ClaimState.RESERVED:
            claim = _counted_again(claim, at)  # noqa: PLW2901 -- the same, later
        memory.claims[claim.key] = replace(claim, due_ns=now_ns + ASK_AGAIN_NS)
        yield FleetOrder(order_kind=_VERBS[claim.state], claim=claim)


def note(memory: FleetMemory, order: FleetOrder, answer: OrderResult, now_ns: int) -> None:
    """Record the result of an order on a node."""
    now = memory.claims.get(order.claim.key)
    if now is None:
        return
    if answer is OrderResult.SILENT:
        memory.claims[now.key] = replace(now, due_ns=now_ns + ASK_AGAIN_NS)
    elif order.order_kind is OrderKind.END:
        memory.claims.pop(now.key)
        memory.ended[now.policy_id, now.node] = now_ns
    elif answer is OrderResult.DONE:
        due_ns = now_ns + round(now.lease_s / RENEWALS_PER_LEASE * NS_PER_S)
        memory.claims[now.key] = replace(now, state=ClaimState.HELD, due_ns=due_ns)
    else:  # refused or lost: an earlier order may still be in force there
        memory.claims[now.key] = replace(now, state=ClaimState.LEAVING, due_ns=now_ns)


def _counted_again(claim: FleetClaim, at: StepContext) -> FleetClaim:
    """Count a repeated request as begun now; release it instead if no budget is left."""
    ledger, now_ns = at.memory.ledger, at.now_ns
    ledger.take_back(claim.node, claim.begun_ns)
    nodes = len(at.fleet.racks)
    kind, _ = ledger.refusal(claim.node, claim.rack, at.limits, fleet_nodes=nodes, now_ns=now_ns)
    ledger.note_begun(claim.node, claim.rack, now_ns)  # it may have begun, whatever is requested now
    if kind:
        return replace(claim, state=ClaimState.LEAVING, begun_ns=now_ns)
    return replace(claim, begun_ns=now_ns)


def _may_leave(claim: FleetClaim, case: FleetIncident | None, policy: FleetPolicy | None, at: StepContext) -> bool:
    memory, now_ns = at.memory, at.now_ns
    if case is not None and case.incident.state is IncidentState.OPEN:
        memory.quiet.pop(claim.incident_id, None)
        return False
    since_ns = memory.quiet.setdefault(claim.incident_id, now_ns)
    if memory.ledger.breaker is not None:
        return False  # nothing changes until an operator resets it; claims in force are renewed
    if policy is None:
        return True
    after_ns, every_ns = (round(one * NS_PER_S) for one in (policy.then.release_after_s, policy.then.release_every_s))
    return now_ns - since_ns >= after_ns and now_ns - memory.released_ns >= every_ns


def outcomes(live: Mapping[str, FleetIncident], at: StepContext) -> Iterator[Outcome]:
    """Yield the outcome of each action after its settle time, by how many nodes deviate."""
    for pair, awaited in list(at.memory.awaited.items()):
        if awaited.helped is not None or at.now_ns < awaited.due_ns:
            continue
        case = live.get(pair[1])
        still = case is not None and case.incident.state is IncidentState.OPEN
        after = case.incident.number("nodes") if case is not None and still else 0.0
        helped = not still or (awaited.before is not None and after is not None and after < awaited.before)
        at.memory.awaited[pair] = replace(awaited, helped=helped)
        yield Outcome(
            id=f"{awaited.decision_id}:outcome",
            time_ns=at.now_ns,
            incident_id=pair[1],
            decision_id=awaited.decision_id,
            measure="nodes",
            unit="",
            before=awaited.before,
            after=after,
            helped=helped,
            summary=f"deviating nodes: {_number(awaited.before)} before, {_number(after)} after",
        )


def is_climbed(pair: Pair, policies: Sequence[FleetPolicy], memory: FleetMemory) -> bool:
    """Return True if this rung did not help and there is one above it: then no more of it begins."""
    awaited = memory.awaited.get(pair)
    failed = awaited is not None and awaited.helped is False
    return failed and any(policy.after == pair[0] for policy in policies)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
