"""Ladders: the rungs that a policy stands on, and what keeps it from ever being climbed to."""

from collections.abc import Iterator, Mapping, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.checking.reach import Answer, reach_of
from rules.policy.model import Policy, PolicyStatus


def rungs_below(policy: Policy, by_id: Mapping[str, Policy]) -> tuple[str, ...]:
    """Return the ids below a rung, the nearest first; a ladder that runs in a circle ends where it meets itself."""
    below: list[str] = []
    next_id = policy.after
    while next_id is not None and next_id not in below and next_id != policy.id:
        below.append(next_id)
        rung = by_id.get(next_id)
        next_id = None if rung is None else rung.after
    return tuple(below)


def on_one_ladder(one: Policy, other: Policy, by_id: Mapping[str, Policy]) -> bool:
    """Return whether one of two policies waits for the other."""
    return other.id in rungs_below(one, by_id) or one.id in rungs_below(other, by_id)


def ladder_complaints(policies: Sequence[Policy], *, checked: frozenset[str] | None = None) -> Iterator[Complaint]:
    """Yield the rungs that stand on nothing, in a circle, or on one that never acts.

    `checked` are the causes whose symptom is checked after an action; None where that is not known.
    """
    by_id = {policy.id: policy for policy in policies}
    for policy in policies:
        if policy.after is None or policy.status is PolicyStatus.DEPRECATED:
            continue
        found = _fault(policy, by_id) or _unchecked(policy, by_id, checked)
        if found is not None:
            flaw, words = found
            yield Complaint(policy_id=policy.id, where=policy.where, key="after", flaw=flaw, words=words)


def _fault(policy: Policy, by_id: Mapping[str, Policy]) -> tuple[Flaw, str] | None:
    below = policy.after or ""
    rung = by_id.get(below)
    if rung is None:
        return Flaw.LADDER, f"there is no policy {below}"
    if any(_after(name, by_id) == policy.id for name in (below, *rungs_below(policy, by_id))):
        return Flaw.LADDER, f"the ladder runs in a circle: {' after '.join((policy.id, *rungs_below(policy, by_id)))}"
    return _never_climbed(policy, rung)


def _never_climbed(policy: Policy, rung: Policy) -> tuple[Flaw, str] | None:
    """Return why the rung below never acts, or never on the same incident."""
    below = rung.id
    if rung.status is PolicyStatus.DEPRECATED:
        return Flaw.UNREACHABLE, f"{below} is deprecated and never acts, so that this rung is never climbed to"
    if reach_of(policy.when, rung.when).answer is Answer.NEVER:
        return Flaw.UNREACHABLE, f"no incident meets its condition and that of {below}, after which it comes"
    return None


def _unchecked(policy: Policy, by_id: Mapping[str, Policy], checked: frozenset[str] | None) -> tuple[Flaw, str] | None:
    """Return where a rung waits for a symptom check that nobody makes."""
    below = by_id[policy.after or ""]
    reach = reach_of(policy.when, below.when)
    causes = [branch.words.get("incident.cause") for branch in reach.branches]
    if checked is None or not causes or any(found is None or found & checked for found in causes):
        return None
    named = ", ".join(sorted({word for found in causes for word in found or ()}))
    return Flaw.RARE, f"no symptom is checked for {named}: this rung is climbed to only where {below.id} cannot act"


def _after(policy_id: str, by_id: Mapping[str, Policy]) -> str | None:
    policy = by_id.get(policy_id)
    return None if policy is None else policy.after
