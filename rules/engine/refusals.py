"""Reasons against a new action: limits, each with its reason, and a rung below that has not failed yet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rules.caps.knobs import KNOB_OF
from rules.engine.claims import CapClaim, PolicyProgress
from rules.engine.policy_incident import PolicyIncident
from rules.limits.node import DAY_NS, HOUR_NS, Breaker
from rules.policy.model import ActionClass, Persist, Policy
from telemetry.clock import NS_PER_S
from telemetry.durations import format_duration
from telemetry.entities import label_of_id
from telemetry.gpu import KnobKind
from telemetry.records import Mode

# Notifying people and protecting the hardware do not wait for the last action; see `Rails.spacing_s`.
_SPACED = frozenset(ActionClass) - KNOB_OF.keys() - {ActionClass.NOTIFY}


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


def breaker_summary(breaker: Breaker) -> str:
    """Return why the breaker tripped and what resets it."""
    return f"the breaker tripped ({breaker.reason}); an operator must reset it"


def refusals(subject: PolicyIncident, targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the limits that refuse an action, as kind and reason, the most important first."""
    memory, limits, incident, now_ns = subject.memory, subject.limits, subject.incident, subject.now_ns
    action = subject.policy.then.action
    if subject.watch.barred is not None:
        yield "barred", subject.watch.barred
    if memory.breaker is not None and action is not ActionClass.NOTIFY:  # notifications go on
        yield "breaker", breaker_summary(memory.breaker)
    if incident.silence is not None and action in limits.silence_stops:
        yield "silence", incident.silence
    window = limits.stopped_by(action, now_ns)
    if window is not None:
        yield "maintenance", window.summary
    if not targets:
        lacks = f", or none has a {KNOB_OF[action].label} to set" if action in KNOB_OF else ""
        yield "target", f"no GPU that answers is a target{lacks}"
    ended_ns = memory.ended.get((subject.policy.id, incident.entity_id))
    if ended_ns is not None and now_ns - ended_ns < subject.policy.then.cooldown_s * NS_PER_S:
        seconds = subject.policy.then.cooldown_s
        yield "cooldown", f"cooldown of {seconds:g} s after the last action on {label_of_id(incident.entity_id)}"
    yield from _budgets(subject, targets)


def _budgets(subject: PolicyIncident, targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    memory, limits, now_ns = subject.memory, subject.limits, subject.now_ns
    then = subject.policy.then
    uncounted = "; tightening a cap in force does not count" if then.action in KNOB_OF else ""
    ages_ns = [now_ns - item.time_ns for item in memory.acted if item.action is then.action]
    for most, over_ns, period in (
        (limits.actions_per_hour, HOUR_NS, "an hour"),
        (limits.actions_per_day, DAY_NS, "a day"),
    ):
        if sum(age_ns < over_ns for age_ns in ages_ns) >= most:
            yield "rate", f"limit of {most} new {then.action.value} actions {period} reached{uncounted}"
    if then.budget is not None:
        own = [item for item in memory.acted if item.policy_id == subject.policy.id]
        if sum(now_ns - item.time_ns < then.budget.per_s * NS_PER_S for item in own) >= then.budget.actions:
            period = format_duration(then.budget.per_s)
            yield "rate", f"budget of {then.budget.actions} new actions in {period} used up{uncounted}"
    spaced = [now_ns - item.time_ns for item in memory.acted if item.action in _SPACED]
    if then.action in _SPACED and any(age_ns < limits.spacing_s * NS_PER_S for age_ns in spaced):
        yield "spacing", f"at most one action outside the GPUs in {limits.spacing_s:g} s"
    knob = KNOB_OF.get(then.action)
    if knob is None:
        return
    held = {gpu for claim in memory.claims.values() if claim.knob is not KnobKind.FAN for gpu in claim.gpus}
    if (
        knob is not KnobKind.FAN
        and limits.capped_gpus_max is not None
        and len(held | set(targets)) > limits.capped_gpus_max
    ):
        yield "budget", f"{len(held | set(targets))} GPUs would be capped, at most {limits.capped_gpus_max} allowed"
    if then.budget is not None and then.budget.gpus_max is not None:
        own_gpus = {gpu for key, claim in memory.claims.items() if key[0] == subject.policy.id for gpu in claim.gpus}
        if len(own_gpus | set(targets)) > then.budget.gpus_max:
            count, most = len(own_gpus | set(targets)), then.budget.gpus_max
            yield "budget", f"{count} GPUs would be under this policy, at most {most} by its budget"
