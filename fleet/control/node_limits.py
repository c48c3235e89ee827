"""The node's own rails against what a fleet asks: a service has no more rights here than the node's own rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.actuation.limits import DEFAULT_LIMITS
from fleet.control.request import NodeRequest
from rules.limits.node import DAY_NS, HOUR_NS, Rails
from rules.policy.model import ActionClass
from telemetry.knobs import KnobKind
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """How things stand on the node when a request comes.

    Parameters
    ----------
    settings
        What can be set, ascending, by knob and entity id of each GPU; the least and the most are enough.
    breaker
        Why the guard's breaker tripped; None while it is whole or nobody guards.
    silence
        Who asked for quiet about the whole node, until when and why.
    capped
        GPUs under a cap of anybody.
    claims
        Incidents with a claim in force.
    acted_ns
        When new actions were begun in the last day, by class: by the guard and for fleets.
    """

    settings: Mapping[KnobKind, Mapping[str, Sequence[float]]]
    breaker: str | None = None
    silence: str | None = None
    capped: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    acted_ns: Sequence[tuple[ActionClass, int]] = ()

    def of(self, ask: NodeRequest) -> Mapping[str, Sequence[float]]:
        """Return what the knob of a request can be set to, by GPU; nothing where no GPU has that knob."""
        return {} if ask.knob is None else self.settings.get(ask.knob, {})


def targets_of(ask: NodeRequest, state: NodeState) -> tuple[str, ...]:
    """Return the GPUs that are meant: all of the node where none is named."""
    return ask.targets or tuple(state.of(ask))


def setting_of(ask: NodeRequest, entity_id: str, state: NodeState) -> float:
    """Return the setting that is asked of one GPU."""
    if ask.setting is not None:
        return ask.setting
    return (ask.ratio or 1.0) * state.of(ask)[entity_id][-1]


def refusal(ask: NodeRequest, state: NodeState, rails: Rails, *, lease_max_s: float, now_ns: int) -> str:
    """Return which rail forbids a cap, the weightiest first; an empty text where none does."""
    if ask.knob is None:
        return f"{ask.action.value} is not carried out for a fleet"  # it has no lease here
    mode = rails.mode(ask.action, Mode.ENFORCE)
    if mode is not Mode.ENFORCE:
        return f"actions.{ask.action.value} is {mode.value} here"
    if ask.lease_s > lease_max_s:
        return f"a lease of {ask.lease_s:g} s, at most {lease_max_s:g} s here"
    return (
        _not_now(ask, state, rails, now_ns)
        or _wrong_gpus(ask, ask.knob, state)
        or _wrong_setting(ask, ask.knob, state, rails)
        or _no_budget(ask, state, rails, now_ns)
    )


def _not_now(ask: NodeRequest, state: NodeState, rails: Rails, now_ns: int) -> str:
    if state.breaker is not None:
        return f"the breaker of this node tripped ({state.breaker}); a person must reset it"
    if state.silence is not None and ask.action in rails.silence_stops:
        return state.silence
    if (window := rails.stopped_by(ask.action, now_ns)) is not None:
        return window.words
    return f"{ask.action.value} needs a person's approval here" if ask.action in rails.approval else ""


def _wrong_gpus(ask: NodeRequest, knob: KnobKind, state: NodeState) -> str:
    settings = state.of(ask)
    if not settings:
        return f"no GPU here has a {knob.words} that can be set"
    strangers = sorted(set(ask.targets) - settings.keys())
    return f"no GPU here with a {knob.words} that can be set: {', '.join(strangers)[:200]}" if strangers else ""


def _wrong_setting(ask: NodeRequest, knob: KnobKind, state: NodeState, rails: Rails) -> str:
    least = rails.min_clock_ratio if knob is KnobKind.CLOCK else DEFAULT_LIMITS[knob].min_ratio
    for target in targets_of(ask, state):
        highest, wanted = state.of(ask)[target][-1], setting_of(ask, target, state)
        if wanted < least * highest:
            return f"{knob.text(wanted)} is below {least:.0%} of {knob.text(highest)}"
        if wanted > highest:
            return f"{knob.text(wanted)} is above the highest {knob.words} of {knob.text(highest)}"
    return ""


def _no_budget(ask: NodeRequest, state: NodeState, rails: Rails, now_ns: int) -> str:
    ages_ns = [now_ns - acted_ns for action, acted_ns in state.acted_ns if action is ask.action]
    is_new = ask.claim_id not in state.claims  # a change of a cap that stands is no new action
    for most, over_ns, words in (
        (rails.actions_per_hour, HOUR_NS, "an hour"),
        (rails.actions_per_day, DAY_NS, "a day"),
    ):
        if is_new and sum(age_ns < over_ns for age_ns in ages_ns) >= most:
            return f"the budget of {most} new {ask.action.value} actions {words} is used up here"
    capped = len(state.capped.union(targets_of(ask, state)))
    if ask.knob is not KnobKind.FAN and rails.capped_gpus_max is not None and capped > rails.capped_gpus_max:
        return f"{capped} GPUs would be capped, {rails.capped_gpus_max} may be here"
    return ""
