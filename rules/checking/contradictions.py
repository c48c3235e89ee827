"""Pairs of policies that one incident sets against each other."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from rules.checking.complaint import Complaint, Flaw
from rules.checking.ladders import on_one_ladder
from rules.checking.reach import Answer, facts_in_words, reach_of
from rules.policy.model import ActionClass, Policy, PolicyStatus
from telemetry.records import Mode

# What takes a job or the node away, and what gives the job time to end or to save itself.
_ENDS = {ActionClass.REQUEUE: "ends the job at once", ActionClass.POWER_CYCLE: "takes the node away under it"}
_GIVES_TIME = {
    ActionClass.CHECKPOINT: "asks the job to save itself",
    ActionClass.DRAIN: "lets the job run to its end",
}
# One knob each: of two that are held the stricter wins, so that the other has no effect of its own.
_HELD = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)


def contradictions(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield pairs that would be enforced for the same facts and undo, or merely cover, each other.

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
        flaw, words = found
        reach = reach_of(one.when, other.when)
        if reach.answer is Answer.MET and reach.witness is not None:
            yield _complaint(one, flaw, f"{words}, both for {facts_in_words(reach.witness)}")
        elif reach.answer is Answer.UNDECIDED and flaw.is_error:
            yield _complaint(one, Flaw.UNDECIDED, f"{words}; whether for the same facts cannot be decided: {reach.why}")


def _conflict(one: Policy, other: Policy) -> tuple[Flaw, str] | None:
    for ending, giving in ((one, other), (other, one)):
        ends, gives = _ENDS.get(ending.then.action), _GIVES_TIME.get(giving.then.action)
        if ends is not None and gives is not None:
            words = f"{giving.id} {gives} while {ending.id} {ends}; put one after the other"
            return Flaw.CONTRADICTING, words
    if one.then.action is not other.then.action:
        return None
    if any(item.then.setting is not None and item.then.setting.ramp_from is not None for item in (one, other)):
        return None  # a ramp goes up to where the claims of others leave it
    if one.then.action in _HELD:
        return Flaw.OVERLAPPING, f"{one.id} and {other.id} both hold {one.then.action.value}; the stricter one wins"
    if one.then.parameters == other.then.parameters:
        return Flaw.OVERLAPPING, f"{one.id} and {other.id} both do {one.then.action.value}"
    return None


def _complaint(policy: Policy, flaw: Flaw, words: str) -> Complaint:
    return Complaint(policy_id=policy.id, where=policy.where, key="when", flaw=flaw, words=words)
