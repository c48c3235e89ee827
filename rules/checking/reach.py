"""Whether a condition can be met at all, and by what: told only where the engine of conditions itself agrees."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rules.checking.branches import (
    OPEN,
    OPEN_OR_MITIGATED,
    Branch,
    TooManyBranchesError,
    branches_of,
    witness_of,
)
from rules.checking.complaint import Complaint, Flaw
from rules.conditions.condition import Condition
from rules.policy.model import Policy

Facts = Mapping[str, Mapping[str, object]]
# Heuristic: conditions of 60 ways each, looked at in a tenth of a second; every pair of policies costs this.
PAIRS_MAX = 4096


class Answer(StrEnum):
    """What can be said of a condition."""

    MET = "met"  # by the facts that are shown
    NEVER = "never"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whether facts meet one or several conditions at once; `witness` are such facts, `why` says what is in the way."""

    answer: Answer
    branches: tuple[Branch, ...] = ()
    witness: Facts | None = None
    why: str = ""


def states_of(policy: Policy) -> frozenset[str]:
    """Return the states of an incident in which a policy may begin to act."""
    setting = policy.then.setting
    return OPEN if setting is None or setting.ramp_from is None else OPEN_OR_MITIGATED


def reach_of(*conditions: Condition, states: frozenset[str] = OPEN) -> Reach:
    """Return whether one incident in one of these states can meet all of these conditions."""
    try:
        ways = [branches_of(condition.tree, condition.source, states=states) for condition in conditions]
    except TooManyBranchesError as err:
        return Reach(answer=Answer.UNDECIDED, why=str(err))
    met: tuple[Branch, ...] = ways[0]
    for others in ways[1:]:
        if len(met) * len(others) > PAIRS_MAX:
            return Reach(answer=Answer.UNDECIDED, why=f"more than {PAIRS_MAX} ways to be met together")
        met = tuple(both for a in met for b in others if (both := a.meet(b)) is not None)
    if not met:
        return Reach(answer=Answer.NEVER)
    for branch in met:
        witness = witness_of(branch)
        if all(condition.judge(witness).met for condition in conditions):
            return Reach(answer=Answer.MET, branches=met, witness=witness)
    doubts = tuple(dict.fromkeys(text for branch in met for text in branch.doubts))
    return Reach(answer=Answer.UNDECIDED, branches=met, why=f"nothing is known here of {' and '.join(doubts)}")


def unreachable(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Yield the policies whose condition no open incident meets, and those of which that cannot be said."""
    for policy in policies:
        reach = reach_of(policy.when, states=states_of(policy))
        if reach.answer is Answer.NEVER:
            yield _complaint(policy, Flaw.UNREACHABLE, "no open incident can meet it")
        elif reach.answer is Answer.UNDECIDED:
            yield _complaint(policy, Flaw.UNDECIDED, f"whether it can be met cannot be decided: {reach.why}")
        yield from _dead_arms(policy)


def _dead_arms(policy: Policy) -> Iterator[Complaint]:
    """Yield the sides of a top-level ``||`` that add nothing, since nothing meets them."""
    tree, source = policy.when.tree, policy.when.source
    sides = [tree]
    while any(side.value == "||" and side.parts for side in sides):
        sides = [part for side in sides for part in (side.parts if side.value == "||" and side.parts else (side,))]
    if len(sides) < 2:
        return
    for side in sides:
        text = source[side.start : side.end]
        try:
            ways = branches_of(side, source, states=states_of(policy))
        except TooManyBranchesError:
            continue
        if not ways:
            yield _complaint(policy, Flaw.UNREACHABLE, f"no open incident can meet its part {text}")


def _complaint(policy: Policy, flaw: Flaw, words: str) -> Complaint:
    return Complaint(policy_id=policy.id, where=policy.where, key="when", flaw=flaw, words=words)


def facts_in_words(facts: Facts) -> str:
    """Return facts shortly: what the incident is, and the numbers that it carries."""
    incident = facts["incident"]
    numbers = incident.get("numbers")
    carried = [f"{name} {value:g}" for name, value in numbers.items()] if isinstance(numbers, Mapping) else []
    beside = [f"{root}.{name} {value:g}" for root in ("node", "gpu", "supply") for name, value in _numbers(facts[root])]
    told = f" with {', '.join((*carried, *beside))}" if carried or beside else ""
    return f"{incident['severity']} {incident['cause']} on {incident['entity_id']}{told}"


def _numbers(facts: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    yield from ((name, value) for name, value in facts.items() if isinstance(value, float) and value)
