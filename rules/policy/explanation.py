"""A policy in plain words: when it acts, what it does, its limits, how the action ends, and its sources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rules.checking import rungs_below
from rules.conditions.condition import describe, short_name
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass, Persist, Policy, PolicyStatus, Target
from rules.policy.sourced_numbers import thresholds_of
from telemetry.durations import format_duration
from telemetry.records import Mode

_DOES = {
    ActionClass.CLOCK_CAP: "caps the clock",
    ActionClass.POWER_CAP: "lowers the power limit, which bounds the average power and not the peaks of single steps,",
    ActionClass.FAN: "raises the fans",
    ActionClass.NOTIFY: "notifies the operators",
    ActionClass.CHECKPOINT: "requests a checkpoint from the job",
    ActionClass.DRAIN: "drains the node in its scheduler",
    ActionClass.REQUEUE: "requeues the job",
    ActionClass.HOOK: "starts a program",
    ActionClass.POWER_CYCLE: "power-cycles the node",
}
_OF_WHICH = {
    Target.THIS_GPU: "of the GPU that the incident is on",
    Target.ALL_GPUS_OF_SUPPLY: "of every GPU on its supply",
    Target.ALL_GPUS_OF_JOB: "of every GPU of its job",
    Target.ALL_GPUS: "of every GPU of the node",
}
_IF_IT_LASTS = {
    Persist.TIGHTEN: ", and again while the symptom lasts",
    Persist.HOLD: "",
    Persist.RELEASE: ", and releases it if the symptom lasts",
}
_UNIT = {ActionClass.CLOCK_CAP: " MHz", ActionClass.POWER_CAP: " W", ActionClass.FAN: " of the full speed"}


def explain_policy(policy: Policy, all_policies: Sequence[Policy], limits: NodeLimits) -> tuple[tuple[str, str], ...]:
    """Return the explanation of a policy as headings and sentences."""
    return (
        ("why", policy.why),
        *(("when", text) for text in _when(policy)),
        ("then", _then(policy)),
        *(("within", text) for text in _within(policy, limits)),
        ("ends", _ends(policy)),
        *(("ladder", text) for text in _ladder(policy, all_policies)),
        *(("source", text) for text in _sources(policy)),
    )


def _when(policy: Policy) -> Iterator[str]:
    if policy.status is PolicyStatus.DEPRECATED:
        yield "never: it is deprecated"
    yield from map(describe, policy.when.alternatives)
    then = policy.then
    if then.hold_s > 0:
        yield f"and that has lasted {format_duration(then.hold_s)} without a break"
    if then.consecutive > 1:
        yield f"and new evidence has met it {then.consecutive} times in a row"


def _then(policy: Policy) -> str:
    then = policy.then
    targets = "" if then.target is None else f" {_OF_WHICH[then.target]}"
    approval = "; an operator must approve each time" if then.approval else ""
    parameters = "".join(f", {name} {value}" for name, value in then.parameters)
    mode = "" if then.mode is Mode.ENFORCE else f"; its mode is {then.mode.value} at most"
    return f"{_DOES[then.action]}{targets}{_setting(policy)}{parameters}{approval}{mode}"


def _setting(policy: Policy) -> str:
    rule = policy.then.setting
    if rule is None:
        return ""
    if rule.hold_v is not None or rule.shed is not None:
        held = f"the GPUs to draw less by {rule.shed} of the finding"
        if rule.hold_v is not None:
            held = f"the predicted voltage to stay above {rule.hold_v:g} V"
        fallback = f"; to {rule.fallback:g} of the setting in force where no prediction is possible"
        return f" as far as it takes for {held}{fallback}"
    if rule.fraction is not None:
        return f" to {rule.fraction:g} of the setting in force{_IF_IT_LASTS[policy.then.persist]}"
    if rule.fixed is not None:
        return f" to {rule.fixed:g}{_UNIT[policy.then.action]}"
    if rule.hold_c is not None:
        return f" as far as it takes for the hottest GPU to stay at {rule.hold_c:g} °C"
    return f" at the start of a job to {rule.ramp_from or 0.0:g} of the highest, and up within {rule.ramp_s:g} s"


def _within(policy: Policy, limits: NodeLimits) -> Iterator[str]:
    then = policy.then
    mode = limits.mode(then.action, then.mode)
    yield f"mode in force: {mode.value}" + ("" if mode is Mode.ENFORCE else ", so nothing is changed")
    if then.action in limits.approval and not then.approval:
        yield "its class is in limits.approval: an operator must approve each time"
    if then.budget is not None:
        gpus = "" if then.budget.gpus_max is None else f", at most {then.budget.gpus_max} GPUs at once"
        period = format_duration(then.budget.per_s)
        uncounted = "" if then.setting is None else "; steps of a cap in force do not count"
        yield f"its budget: {then.budget.actions} new actions in {period}{gpus}{uncounted}"
    yield f"limit of the node: {limits.actions_per_hour} new actions of its class an hour"
    yield f"cooldown after an action: {format_duration(then.cooldown_s)} on the same entity"


def _ends(policy: Policy) -> str:
    then = policy.then
    if then.release is None or then.lease_s is None:
        return "at once: there is nothing to release"
    if then.action is ActionClass.DRAIN:
        return f"when the incident has been closed for {format_duration(then.release.after_s)}, and not before"
    return (
        f"when the symptom has been absent for {format_duration(then.release.after_s)}: then a step every "
        f"{format_duration(then.release.every_s)}; its lease without renewal: {format_duration(then.lease_s)}"
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
        lines = "; ".join(threshold.sources) or "no line of its source names this number"
        named.update(threshold.sources)
        yield f"{short_name(threshold.key.removeprefix('when.'))} {threshold.value:g}: {lines}"
    yield from (line for line in policy.source if line not in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Key that differs; None if a version does not have it."""

    key: str
    below: object
    above: object


def differences(below: object, above: object, *, key: str = "") -> Iterator[Difference]:
    """Yield every key of two documents, as they are written, whose value differs; in the order of the upper one.

    A list is compared item by item; mappings with a `name` are matched by it.
    """
    one, other = _parts(below), _parts(above)
    if one is None or other is None:
        if below != above:
            yield Difference(key=key or "(document)", below=below, above=above)
        return
    for name in dict.fromkeys((*other, *one)):
        inner = f"{key}.{name}" if key and not name.startswith("[") else f"{key}{name}"
        if name in one and name in other:
            yield from differences(one[name], other[name], key=inner)
        else:
            yield Difference(key=inner, below=one.get(name), above=other.get(name))


def _parts(value: object) -> dict[str, object] | None:
    """Return the parts of a mapping or a list; None for anything else."""
    if isinstance(value, Mapping):
        return {str(name): inner for name, inner in value.items()}
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return {f"[{_name(item, place)}]": item for place, item in enumerate(value)}
    return None


def _name(item: object, place: int) -> str:
    named = item.get("name") if isinstance(item, Mapping) else None
    return str(place) if named is None else repr(named)
