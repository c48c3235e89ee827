"""Whether an action of the fleet helped: fewer nodes that deviate, once it has had its time; the next rung waits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rules.fleet.memory import FleetMemory, Pair
from rules.fleet.orders import FleetIncident, StepContext
from rules.fleet.policy import FleetPolicy
from telemetry.records import IncidentState, Outcome


def outcomes(live: Mapping[str, FleetIncident], at: StepContext) -> Iterator[Outcome]:
    """Compare how many nodes deviate with how many did, once an action has had its time."""
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
            summary=f"nodes that deviate: {_number(awaited.before)} before, {_number(after)} after",
        )


def is_climbed(pair: Pair, policies: Sequence[FleetPolicy], memory: FleetMemory) -> bool:
    """Return whether this rung did not help and one stands above it: then no more of it begins."""
    awaited = memory.awaited.get(pair)
    failed = awaited is not None and awaited.helped is False
    return failed and any(policy.after == pair[0] for policy in policies)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
