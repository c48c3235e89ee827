"""Numbers of a policy that none of its sources names."""

from collections.abc import Iterator, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.policy.model import Policy
from rules.policy.sourced_numbers import thresholds_of


def unsourced(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every number that is compared with or set and appears in no line of the policy's source."""
    for policy in policies:
        for threshold in thresholds_of(policy):
            if not threshold.sources:
                summary = f"no line of it names {threshold.value:g}, the value of {threshold.key}"
                yield Complaint(
                    policy_id=policy.id, where=policy.where, key="source", flaw=Flaw.UNSOURCED, summary=summary
                )
