"""Ladders: policies that act `after` others, and mistakes that keep a rung from ever being reached."""

from collections.abc import Iterator, Mapping, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.checking.reach import met_together
from rules.policy.model import Policy, PolicyStatus


def rungs_below(policy: Policy, by_id: Mapping[str, Policy]) -> tuple[str, ...]:
    """Return the ids below a rung, the nearest first; a circular ladder ends at the first id that repeats."""
    below: list[str] = []
    next_id = policy.after
    while next_id is not None and next_id not in below and next_id != policy.id:
        below.append(next_id)
        rung = by_id.get(next_id)
        next_id = None if rung is None else rung.after
    return tuple(below)


def on_one_ladder(one: Policy, other: Policy, by_id: Mapping[str, Policy]) -> bool:
    """Return True if one of two policies waits for the other."""
    return other.id in rungs_below(one, by_id) or one.id in rungs_below(other, by_id)


def ladder_complaints(policies: Sequence[Policy], *, checked: frozenset[str] | None = None) -> Iterator[Complaint]:
    """Yield the rungs whose policy below is missing, deprecated, on other incidents, or in a circle.

    `checked` are the causes whose symptom is checked after an action; None if that is not known.
    """
    by_id = {policy.id: policy for policy in policies}
    for policy in policies:
        if policy.after is None or policy.status is PolicyStatus.DEPRECATED:
            continue
        found = _fault(policy, by_id) or _unchecked(policy, by_id, checked)
        if found is not None:
            flaw, summary = found
            yield Complaint(policy_id=policy.id, where=policy.where, key="after", flaw=flaw, summary=summary)


def _fault(policy: Policy, by_id: Mapping[str, Policy]) -> tuple[Flaw, str] | None:
    below = policy.after or ""
    rung = by_id.get(below)
    if rung is None:
        return Flaw.LADDER, f"there is no policy {below}"
    if any(_after(name, by_id) == policy.id for name in (below, *rungs_below(policy, by_id))):
        return Flaw.LADDER, f"the ladder runs in a circle: {' after '.join((policy.id, *rungs_below(policy, by_id)))}"
    if rung.status is PolicyStatus.DEPRECATED:
        return Flaw.UNREACHABLE, f"{below} is deprecated and never acts, so this rung is never reached"
    if not met_together(policy.when, rung.when):
        return Flaw.UNREACHABLE, f"no incident meets both its condition and that of {below}, after which it comes"
    return None


def _unchecked(policy: Policy, by_id: Mapping[str, Policy], checked: frozenset[str] | None) -> tuple[Flaw, str] | None:
    """Return the flaw of a rung that waits for a symptom check that does not exist."""
    below = by_id[policy.after or ""]
    causes = [alternative.get("cause") for alternative in met_together(policy.when, below.when)]
    named = {str(cause) for found in causes if isinstance(found, frozenset) for cause in found}
    if checked is None or None in causes or named & checked:
        return None
    summary = f"no symptom is checked for {', '.join(sorted(named))}: reached only where {below.id} cannot act"
    return Flaw.RARE, summary


def _after(policy_id: str, by_id: Mapping[str, Policy]) -> str | None:
    policy = by_id.get(policy_id)
    return None if policy is None else policy.after
