"""Alternatives of a condition that no case shows."""

from collections.abc import Iterator, Sequence

from rules.checking.complaint import Complaint, Flaw
from rules.checking.reach import STATE, states_of
from rules.conditions.condition import combine, describe, judge_alternative
from rules.policy.cases import facts_at
from rules.policy.model import Policy


def untested(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every alternative that an incident can meet and no firing case does."""
    for policy in policies:
        shown = [facts_at(case, step) for case in policy.cases if case.expect for step in case.steps]
        for alternative in policy.when.alternatives:
            if combine({STATE: states_of(policy)}, alternative) is None:
                continue
            if not any(judge_alternative(alternative, facts).met for facts in shown):
                summary = f"no case fires through '{describe(alternative)}'"
                yield Complaint(
                    policy_id=policy.id, where=policy.where, key="cases", flaw=Flaw.UNTESTED, summary=summary
                )
