"""Rungs: a policy that comes `after` another one acts only where that one's action on the incident did not help."""

from collections.abc import Mapping
from dataclasses import replace

from rules.engine.claims import Claim, Watch
from rules.engine.policy_incident import Matter
from rules.policy.model import Persist, Policy
from telemetry.clock import NS_PER_S
from telemetry.records import Mode


def may_climb(matter: Matter, policies: Mapping[str, Policy]) -> bool:
    """Return whether the rung below has failed for good: its symptom check, and a cap of its that can go no further.

    A rung that could not act at all, for want of a knob or by an error, has failed too. One that is enforced goes past
    those below it that are not, once the symptom has outlasted the time in which they would have shown an effect.
    """
    if matter.policy.after is None:
        return True
    below = policies.get(matter.policy.after)
    if _failed(matter, below):
        return True
    return matter.mode is Mode.ENFORCE and below is not None and _passed_over(matter, below, policies)


def _failed(matter: Matter, below: Policy | None) -> bool:
    key = (matter.policy.after or "", matter.incident.id)
    if matter.memory.rungs.get(key) is not False:
        return False
    claim = matter.memory.claims.get(key)
    return claim is None or not _goes_on(claim, below)


def _passed_over(matter: Matter, below: Policy, policies: Mapping[str, Policy]) -> bool:
    if matter.limits.mode(below.then.action, below.then.mode) is Mode.ENFORCE:
        return False
    since_ns = matter.memory.watches.get((below.id, matter.incident.id), Watch()).met_since_ns
    if since_ns is None or matter.now_ns - since_ns < below.then.settle_s * NS_PER_S:
        return False
    if below.after is None:
        return True
    under, rest = replace(matter, policy=below), {name: one for name, one in policies.items() if name != below.id}
    lower = rest.get(below.after)
    return _failed(under, lower) or (lower is not None and _passed_over(under, lower, rest))


def _goes_on(claim: Claim, policy: Policy | None) -> bool:
    """Return whether a claim will still be made stricter by its own policy if the symptom stays."""
    if policy is None or not claim.enforced or claim.exhausted:
        return False
    return policy.then.persist is Persist.TIGHTEN
