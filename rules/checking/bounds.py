"""Missing bounds of an action: lease, budget, cooldown, consecutive evidence."""

from collections.abc import Iterator, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.policy.model import ActionClass, Policy

# These stay in force until they are released: without a lease they would outlive the process that set them.
_CAPS = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)
_HOLDS = (*_CAPS, ActionClass.DRAIN)
# These may follow the first finding: a cap is released without loss, and a message costs a look.
_AT_ONCE = (*_CAPS, ActionClass.NOTIFY)


def unbounded(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield each policy's missing lease, budget, cooldown and consecutive evidence."""
    for policy in policies:
        for key, summary in _missing(policy):
            yield Complaint(policy_id=policy.id, where=policy.where, key=key, flaw=Flaw.UNBOUNDED, summary=summary)


def _missing(policy: Policy) -> Iterator[tuple[str, str]]:
    then = policy.then
    name = then.action.value
    if then.action in _HOLDS and not then.lease_s:
        yield "then.lease", f"{name} has no lease"
    if then.cooldown_s <= 0:
        yield "then.cooldown", f"{name} has no cooldown"
    if then.action in _AT_ONCE:
        return
    if then.budget is None:
        yield "then.budget", f"{name} has no budget of its own"
    if then.hold_s <= 0 and then.consecutive <= 1:
        yield "then.hold", f"{name} follows the first finding; set hold, or consecutive to 2 or more"
