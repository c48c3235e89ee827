"""Pairs of policies that one incident sets against each other."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from rules.checking.complaint import Complaint, Flaw
from rules.checking.ladders import on_one_ladder
from rules.checking.reach import describe_met, met_together
from rules.policy.model import ActionClass, Policy, PolicyStatus
from telemetry.records import Mode

# Actions that take the job or the node away, and actions that give the job time to end or to save its work.
_ENDS = {ActionClass.REQUEUE: "ends the job at once", ActionClass.POWER_CYCLE: "takes the node away under it"}
_GIVES_TIME = {
    ActionClass.CHECKPOINT: "requests a checkpoint from the job",
    ActionClass.DRAIN: "lets the job run to its end",
}
# One knob each: of two caps the stricter wins, so that the other has no effect of its own.
_HELD = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)


def contradictions(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield pairs that would be enforced on the same incident and undo, or merely cover, each other.

    Rungs of one ladder are no pair: the later waits for the earlier.
    """
    by_id = {policy.id: policy for policy in policies}
    acting = [
        policy
        for policy in policies
        if policy.status is not PolicyStatus.DEPRECATED and policy.then.mode is Mode.ENFORCE
    ]
    for one, other in combinations(acting, 2):
        found = _conflict(one, other)
        if found is None or on_one_ladder(one, other, by_id):
            continue
        met = met_together(one.when, other.when)
        if met:
            flaw, summary = found
            summary += f", both if {describe_met(met[0])}"
            yield Complaint(policy_id=one.id, where=one.where, key="when", flaw=flaw, summary=summary)


def _conflict(one: Policy, other: Policy) -> tuple[Flaw, str] | None:
    for ending, giving in ((one, other), (other, one)):
        ends, gives = _ENDS.get(ending.then.action), _GIVES_TIME.get(giving.then.action)
        if ends is not None and gives is not None:
            return Flaw.CONTRADICTING, f"{giving.id} {gives} while {ending.id} {ends}; put one after the other"
    if one.then.action is not other.then.action:
        return None
    if any(item.then.setting is not None and item.then.setting.ramp_from is not None for item in (one, other)):
        return None  # a ramp goes up to where the claims of others leave it
    if one.then.action in _HELD:
        return Flaw.OVERLAPPING, f"{one.id} and {other.id} both hold {one.then.action.value}; the stricter one wins"
    if one.then.parameters == other.then.parameters:
        return Flaw.OVERLAPPING, f"{one.id} and {other.id} both do {one.then.action.value}"
    return None
