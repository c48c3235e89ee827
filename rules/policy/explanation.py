"""A policy in plain words: when it acts, what it does, within which bounds, and how that ends."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rules.checking.branches import Branch, TooManyBranchesError, branches_of
from rules.checking.ladders import rungs_below
from rules.checking.ranges import EVERYTHING, Interval, outside
from rules.checking.reach import states_of
from rules.limits.node import Rails
from rules.policy.model import ActionClass, Persist, Policy, PolicyStatus, Target
from rules.policy.sourced_numbers import thresholds_of
from telemetry.durations import format_duration
from telemetry.records import Mode

_DOES = {
    ActionClass.CLOCK_CAP: "caps the clock",
    ActionClass.POWER_CAP: "lowers the power limit, which bounds the average power and not the peaks of single steps,",
    ActionClass.FAN: "raises the fans",
    ActionClass.NOTIFY: "tells people",
    ActionClass.CHECKPOINT: "asks the job to write a checkpoint",
    ActionClass.DRAIN: "takes the node out of its scheduler",
    ActionClass.REQUEUE: "puts the job back into the queue",
    ActionClass.HOOK: "starts a program",
    ActionClass.POWER_CYCLE: "power-cycles the node",
}
_WHOM = {
    Target.THIS_GPU: "of the GPU that it is on",
    Target.ALL_GPUS_OF_SUPPLY: "of every GPU on its supply",
    Target.ALL_GPUS_OF_JOB: "of every GPU of its job",
    Target.ALL_GPUS: "of every GPU of the node",
}
_UNIT = {ActionClass.CLOCK_CAP: " MHz", ActionClass.POWER_CAP: " W", ActionClass.FAN: " of the full speed"}


def explain_policy(policy: Policy, all_policies: Sequence[Policy], rails: Rails) -> tuple[tuple[str, str], ...]:
    """Return what a policy says, as headings and sentences."""
    return (
        ("why", policy.why),
        *(("when", words) for words in _when(policy)),
        ("then", _then(policy)),
        *(("within", words) for words in _within(policy, rails)),
        ("ends", _ends(policy)),
        *(("ladder", words) for words in _ladder(policy, all_policies)),
        *(("source", words) for words in _sources(policy)),
    )


def _when(policy: Policy) -> Iterator[str]:
    if policy.status is PolicyStatus.DEPRECATED:
        yield "never: it is deprecated"
    source = policy.when.source
    try:
        branches = branches_of(policy.when.tree, source, states=states_of(policy))
    except TooManyBranchesError:
        branches = ()
    if not branches:
        yield f"an open incident meets {source}"
    for branch in branches:
        doubts = " and ".join(text if wanted else f"not ({text})" for text, wanted in branch.doubts.items())
        words = [
            f"{_name(path)} is {_any_of(sorted(allowed))}" for path, allowed in branch.words.items() if path != _STATE
        ]
        absent = [f"{_name(path)} is not known" for path in sorted(branch.absent)]
        yield (
            " and ".join([*words, *_numbers(branch), *absent, *([doubts] if doubts else [])]) or "any incident is open"
        )
    then = policy.then
    if then.hold_s > 0:
        yield f"and that has lasted {format_duration(then.hold_s)} without a break"
    if then.consecutive > 1:
        yield f"and new evidence has met it {then.consecutive} times in a row"


_STATE = "incident.state"


def _numbers(branch: Branch) -> Iterator[str]:
    """Return what a branch asks of each number, however the condition says it: turned round, denied or from a list."""
    for path, numbers in branch.numbers.items():
        if numbers == EVERYTHING:
            yield f"{_name(path)} is known"
            continue
        gaps = [one.high for one, other in pairwise(numbers) if one.high == other.low and math.isfinite(one.high)]
        if outside(tuple(gaps)) == numbers:
            yield f"{_name(path)} is not {' or '.join(map(_number, gaps))}"
        else:
            yield f"{_name(path)} {' or '.join(_interval(item) for item in numbers)}"


def _interval(item: Interval) -> str:
    if item.low == item.high:
        return f"is {_number(item.low)}"
    low = f"{'above' if item.low_open else 'at least'} {_number(item.low)}" if math.isfinite(item.low) else ""
    high = f"{'below' if item.high_open else 'at most'} {_number(item.high)}" if math.isfinite(item.high) else ""
    return " and ".join(filter(None, (low, high)))


def _number(value: float) -> str:
    return f"{value:.12g}"


def _name(path: str) -> str:
    return path.removeprefix("incident.").removeprefix("numbers.")


def _any_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _then(policy: Policy) -> str:
    then = policy.then
    whom = "" if then.target is None else f" {_WHOM[then.target]}"
    asked = "; a person has to say yes each time" if then.approval else ""
    handed = "".join(f", {name} {value}" for name, value in then.parameters)
    limit = "" if then.mode is Mode.ENFORCE else f"; it never goes beyond the mode {then.mode.value}"
    return f"{_DOES[then.action]}{whom}{_how(policy)}{handed}{asked}{limit}"


def _how(policy: Policy) -> str:
    rule = policy.then.setting
    if rule is None:
        return ""
    if rule.hold_v is not None:
        guess = f"; to {rule.fallback:g} of what is in force where that cannot be predicted"
        return f" as far as it takes for the predicted voltage to stay above {rule.hold_v:g} V{guess}"
    if rule.fraction is not None:
        again = ", and again while the symptom lasts" if policy.then.persist is Persist.TIGHTEN else ""
        return f" to {rule.fraction:g} of what is in force{again}"
    if rule.fixed is not None:
        return f" to {rule.fixed:g}{_UNIT[policy.then.action]}"
    if rule.hold_c is not None:
        return f" as far as it takes for the hottest GPU to stay at {rule.hold_c:g} °C"
    return f" at the start of a job to {rule.ramp_from or 0.0:g} of the highest, and up within {rule.ramp_s:g} s"


def _within(policy: Policy, rails: Rails) -> Iterator[str]:
    then = policy.then
    mode = rails.mode(then.action, then.mode)
    yield f"the mode in force is {mode.value}" + ("" if mode.value == "enforce" else ", so that nothing is changed")
    if then.action in rails.approval and not then.approval:
        yield "rails.approval lists its class: a person has to say yes each time"
    if then.budget is not None:
        gpus = "" if then.budget.gpus_max is None else f", at most {then.budget.gpus_max} GPUs at once"
        yield f"its budget: {then.budget.actions} new actions in {format_duration(then.budget.per_s)}{gpus}"
    yield f"the rails: {rails.actions_per_hour} new actions of its class an hour on the node"
    yield f"after one has ended, quiet for {format_duration(then.cooldown_s)} on the same entity"


def _ends(policy: Policy) -> str:
    then = policy.then
    if then.release is None or then.lease_s is None:
        return "at once: there is nothing to take back"
    if then.action is ActionClass.DRAIN:
        return f"when the incident has been closed for {format_duration(then.release.after_s)}; never while it is not"
    return (
        f"when the symptom has been gone for {format_duration(then.release.after_s)}: then a step every "
        f"{format_duration(then.release.every_s)}; a lease of {format_duration(then.lease_s)} ends it should nobody "
        "renew it"
    )


def _ladder(policy: Policy, all_policies: Sequence[Policy]) -> Iterator[str]:
    by_id = {item.id: item for item in all_policies}
    for below in rungs_below(policy, by_id)[:1]:
        yield f"only once the symptom check of {below} has failed on the same incident"
    rungs = [*reversed(rungs_below(policy, by_id)), policy.id, *_above(policy.id, all_policies)]
    if len(rungs) > 1:
        yield " -> ".join(rungs)


def _above(policy_id: str, all_policies: Sequence[Policy], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    for item in all_policies:
        if item.after == policy_id and item.id not in seen:
            yield item.id
            yield from _above(item.id, all_policies, seen | {policy_id, item.id})


def _sources(policy: Policy) -> Iterator[str]:
    named: set[str] = set()
    for threshold in thresholds_of(policy):
        told = "; ".join(threshold.sources) or "no line of its source names this number"
        named.update(threshold.sources)
        yield f"{_name(threshold.key)} {threshold.value:g}: {told}"
    yield from (line for line in policy.source if line not in named)
