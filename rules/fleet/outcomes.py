"""Symptom checks of the fleet: an action helped if fewer nodes deviate after its settle time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rules.fleet.memory import FleetMemory, Pair
from rules.fleet.orders import FleetIncident, StepContext
from rules.fleet.policy import FleetPolicy
from telemetry.records import IncidentState, Outcome


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
