"""Which ways of meeting a condition no case shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rules.checking.branches import Branch, TooManyBranchesError, branches_of, holds
from rules.checking.complaint import Complaint, Flaw
from rules.checking.reach import states_of
from rules.conditions.condition import compile_condition
from rules.policy.cases import facts_at
from rules.policy.model import Policy


def untested(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield every way in which a condition can be met that no firing case takes."""
    for policy in policies:
        try:
            branches = branches_of(policy.when.tree, policy.when.source, states=states_of(policy))
        except TooManyBranchesError as err:
            words = f"whether its cases show every way to be met cannot be decided: {err}"
            yield Complaint(policy_id=policy.id, where=policy.where, key="cases", flaw=Flaw.UNDECIDED, words=words)
            continue
        shown = [facts_at(case, step) for case in policy.cases if case.expect for step in case.steps]
        for branch in dict.fromkeys(str(item) for item in branches):
            ways = [item for item in branches if str(item) == branch]
            if not any(_takes(way, facts) for way in ways for facts in shown):
                words = f"no case fires through {branch}"
                yield Complaint(policy_id=policy.id, where=policy.where, key="cases", flaw=Flaw.UNTESTED, words=words)


def _takes(branch: Branch, facts: Mapping[str, Any]) -> bool:
    return holds(branch, facts) and all(
        compile_condition(text).judge(facts).met is wanted for text, wanted in branch.doubts.items()
    )
