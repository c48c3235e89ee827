"""Ladders: a policy that comes `after` another acts only if that one's action on the incident did not help."""

from collections.abc import Mapping
from dataclasses import replace

from rules.engine.claims import CapClaim, PolicyProgress
from rules.engine.policy_incident import PolicyIncident
from rules.policy.model import Persist, Policy
from telemetry.clock import NS_PER_S
from telemetry.records import Mode


def may_climb(subject: PolicyIncident, policies: Mapping[str, Policy]) -> bool:
    """Return True if the rung below has failed: its symptom check, and its cap cannot be tightened further.

    A rung that could not act, without a knob or by an error, has failed too. An enforced rung passes over those below
    that are not enforced, once the symptom has outlasted the time in which they would have shown an effect.
    """
    if subject.policy.after is None:
        return True
    below = policies.get(subject.policy.after)
    if _failed(subject, below):
        return True
    return subject.mode is Mode.ENFORCE and below is not None and _passed_over(subject, below, policies)


def _failed(subject: PolicyIncident, below: Policy | None) -> bool:
    key = (subject.policy.after or "", subject.incident.id)
    if subject.memory.rungs.get(key) is not False:
        return False
    claim = subject.memory.claims.get(key)
    return claim is None or not _goes_on(claim, below)


def _passed_over(subject: PolicyIncident, below: Policy, policies: Mapping[str, Policy]) -> bool:
    if subject.limits.mode(below.then.action, below.then.mode) is Mode.ENFORCE:
        return False
    since_ns = subject.memory.watches.get((below.id, subject.incident.id), PolicyProgress()).met_since_ns
    if since_ns is None or subject.now_ns - since_ns < below.then.settle_s * NS_PER_S:
        return False
    if below.after is None:
        return True
    under, rest = replace(subject, policy=below), {name: one for name, one in policies.items() if name != below.id}
    lower = rest.get(below.after)
    return _failed(under, lower) or (lower is not None and _passed_over(under, lower, rest))


def _goes_on(claim: CapClaim, policy: Policy | None) -> bool:
    """Return True if its policy will tighten a cap further while the symptom stays."""
    if policy is None or not claim.enforced or claim.exhausted:
        return False
    return policy.then.persist is Persist.TIGHTEN
