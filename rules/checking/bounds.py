"""What keeps an action in bounds, and is missing."""

from collections.abc import Iterator, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.policy.model import ActionClass, Policy

# What stays in force until it is taken back: without a lease it would outlive whoever set it.
_CAPS = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)
_HOLDS = (*_CAPS, ActionClass.DRAIN)
# These may answer the first finding: a cap is taken back without loss, and a message costs a look.
_AT_ONCE = (*_CAPS, ActionClass.NOTIFY)


def unbounded(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield what each policy lacks of lease, budget, cooldown and consecutive evidence."""
    for policy in policies:
        for key, words in _lacks(policy):
            yield Complaint(policy_id=policy.id, where=policy.where, key=key, flaw=Flaw.UNBOUNDED, words=words)


def _lacks(policy: Policy) -> Iterator[tuple[str, str]]:
    then = policy.then
    name = then.action.value
    if then.action in _HOLDS and not then.lease_s:
        yield "then.lease", f"{name} has no lease"
    if then.cooldown_s <= 0:
        yield "then.cooldown", f"{name} has no quiet time after it"
    if then.action in _AT_ONCE:
        return
    if then.budget is None:
        yield "then.budget", f"{name} has no budget of its own"
    if then.hold_s <= 0 and then.consecutive <= 1:
        yield "then.hold", f"{name} answers the first finding; let the condition last, or ask for a second"
