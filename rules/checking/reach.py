"""Alternatives of conditions that one incident can meet: exact, since every requirement is a set or an interval."""

from collections.abc import Iterator, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.conditions.condition import Condition, Requirements, combine, describe
from rules.policy.model import Policy
from telemetry.records import IncidentState

STATE = "state"
# An incident that is not open starts nothing, whatever the condition is,
OPEN = frozenset({IncidentState.OPEN.value})
# except the ramp of a job that starts while the cap of another policy holds the symptom down.
OPEN_OR_MITIGATED = OPEN | {IncidentState.MITIGATED.value}


def states_of(policy: Policy) -> frozenset[str]:
    """Return the states of an incident in which a policy may begin to act."""
    setting = policy.then.setting
    return OPEN if setting is None or setting.ramp_from is None else OPEN_OR_MITIGATED


def met_together(*conditions: Condition, states: frozenset[str] = OPEN) -> tuple[Requirements, ...]:
    """Return the alternatives in which one incident in these states meets all conditions; empty if none can."""
    met: tuple[Requirements, ...] = ({STATE: states},)
    for condition in conditions:
        met = tuple(
            both for one in met for other in condition.alternatives if (both := combine(one, other)) is not None
        )
    return met


def describe_met(requirements: Requirements) -> str:
    """Return an alternative as a phrase, without the states that an action needs anyway."""
    return describe({path: value for path, value in requirements.items() if path != STATE})


def unreachable(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield the policies, and the alternatives of their conditions, that no open incident can meet."""
    for policy in policies:
        states = states_of(policy)
        if not met_together(policy.when, states=states):
            yield _complaint(policy, "no open incident can meet it")
            continue
        for alternative in policy.when.alternatives:
            if combine({STATE: states}, alternative) is None:
                yield _complaint(policy, f"no open incident can meet its alternative '{describe(alternative)}'")


def _complaint(policy: Policy, summary: str) -> Complaint:
    return Complaint(policy_id=policy.id, where=policy.where, key="when", flaw=Flaw.UNREACHABLE, summary=summary)
