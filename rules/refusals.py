"""The rails that can stand in the way of a new action, each with its reason in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rules.policy import ActionClass, Policy
from rules.rails import Breaker, Rails
from telemetry.clock import NS_PER_S
from telemetry.records import Incident

HOUR_NS = 3600 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How things stand on the node when a policy wants to act.

    Parameters
    ----------
    barred
        Why this incident gets no action, None where it may.
    ended_ns
        When the policy's last action on this entity ended.
    acted
        New actions, at least those of the last hour.
    capped
        GPUs under a cap.
    """

    breaker: Breaker | None
    barred: str | None
    ended_ns: int | None
    acted: Sequence[tuple[ActionClass, int]]
    capped: frozenset[str]


def breaker_words(breaker: Breaker) -> str:
    """Say that and why the breaker tripped."""
    return f"the breaker tripped ({breaker.reason}); a person must reset it"


def refusals(
    policy: Policy, incident: Incident, targets: Sequence[str], rails: Rails, standing: Standing, *, now_ns: int
) -> Iterator[tuple[str, str]]:
    """Give every rail in the way as its kind and the reason, the weightiest first."""
    action = policy.then.action
    if standing.barred is not None:
        yield "barred", standing.barred
    if standing.breaker is not None:
        yield "breaker", breaker_words(standing.breaker)
    if action in rails.approval:
        yield "approval", f"{action.value} needs a person's approval"
    if action is ActionClass.NOTIFY and incident.silence is not None:
        yield "silence", incident.silence
    if not targets:
        yield "target", "no GPU that answers is meant"
    if standing.ended_ns is not None and now_ns - standing.ended_ns < policy.then.cooldown_s * NS_PER_S:
        yield "cooldown", f"cooldown of {policy.then.cooldown_s:g} s after the last action on {incident.entity_id}"
    if sum(acted is action and now_ns - acted_ns < HOUR_NS for acted, acted_ns in standing.acted) >= (
        rails.actions_per_hour
    ):
        yield "rate", f"the budget of {rails.actions_per_hour} new {action.value} actions an hour is used up"
    capped = len(standing.capped.union(targets))
    if action is ActionClass.CLOCK_CAP and rails.capped_gpus_max is not None and capped > rails.capped_gpus_max:
        yield "budget", f"{capped} GPUs would be capped, {rails.capped_gpus_max} may be"
