"""Limits of the node on requests of fleet services: a service has no more rights than the policies of the node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.actuation.limits import DEFAULT_LIMITS
from fleet.control.request import NodeRequest
from rules.limits.node import DAY_NS, HOUR_NS, NodeLimits
from rules.policy.model import ActionClass
from telemetry.gpu import KnobKind
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """State of the node when a request is received.

    Parameters
    ----------
    settings
        Settings that each GPU supports, ascending, by knob and entity id; the lowest and the highest are enough.
    breaker
        Reason why the breaker of the guard tripped; None while it is not tripped or no guard runs.
    silence
        Operator, end and reason of a silence for the whole node.
    capped
        GPUs under a cap of any owner.
    claims
        Incidents with a claim in force.
    acted_ns
        Times of new actions in the last day with their class, of the guard and for fleets.
    """

    settings: Mapping[KnobKind, Mapping[str, Sequence[float]]]
    breaker: str | None = None
    silence: str | None = None
    capped: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    acted_ns: Sequence[tuple[ActionClass, int]] = ()

    def of(self, request: NodeRequest) -> Mapping[str, Sequence[float]]:
        """Return the settings of the knob of a request by GPU, empty where no GPU has that knob."""
        return {} if request.knob is None else self.settings.get(request.knob, {})


def targets_of(request: NodeRequest, state: NodeState) -> tuple[str, ...]:
    """Return the target GPUs: all of the node where the request names none."""
    return request.targets or tuple(state.of(request))


def setting_of(request: NodeRequest, entity_id: str, state: NodeState) -> float:
    """Return the requested setting of one GPU."""
    if request.setting is not None:
        return request.setting
    return (request.ratio or 1.0) * state.of(request)[entity_id][-1]


def refusal(request: NodeRequest, state: NodeState, limits: NodeLimits, *, lease_max_s: float, now_ns: int) -> str:
    """Return the limit that forbids a cap, the most severe first, empty where none does."""
    if request.knob is None:
        return f"{request.action.value} cannot be requested by a fleet"  # it has no lease here
    mode = limits.mode(request.action, Mode.ENFORCE)
    if mode is not Mode.ENFORCE:
        return f"actions.{request.action.value} is {mode.value} here"
    if request.lease_s > lease_max_s:
        return f"a lease of {request.lease_s:g} s, at most {lease_max_s:g} s here"
    return (
        _not_now(request, state, limits, now_ns)
        or _wrong_gpus(request, request.knob, state)
        or _wrong_setting(request, request.knob, state, limits)
        or _no_budget(request, state, limits, now_ns)
    )


def _not_now(request: NodeRequest, state: NodeState, limits: NodeLimits, now_ns: int) -> str:
    if state.breaker is not None:
        return f"the breaker of this node is tripped ({state.breaker}); an operator has to reset it"
    if state.silence is not None and request.action in limits.silence_stops:
        return state.silence
    if (window := limits.stopped_by(request.action, now_ns)) is not None:
        return window.summary
    return f"{request.action.value} needs approval on this node" if request.action in limits.approval else ""


def _wrong_gpus(request: NodeRequest, knob: KnobKind, state: NodeState) -> str:
    settings = state.of(request)
    if not settings:
        return f"no GPU here has a {knob.label} that can be set"
    unknown = sorted(set(request.targets) - settings.keys())
    return f"no GPU here with a {knob.label} that can be set: {', '.join(unknown)[:200]}" if unknown else ""


def _wrong_setting(request: NodeRequest, knob: KnobKind, state: NodeState, limits: NodeLimits) -> str:
    least = limits.min_clock_ratio if knob is KnobKind.CLOCK else DEFAULT_LIMITS[knob].min_ratio
    for target in targets_of(request, state):
        highest, wanted = state.of(request)[target][-1], setting_of(request, target, state)
        if wanted < least * highest:
            return f"{knob.text(wanted)} is below {least:.0%} of {knob.text(highest)}"
        if wanted > highest:
            return f"{knob.text(wanted)} is above the highest {knob.label} of {knob.text(highest)}"
    return ""


def _no_budget(request: NodeRequest, state: NodeState, limits: NodeLimits, now_ns: int) -> str:
    ages_ns = [now_ns - acted_ns for action, acted_ns in state.acted_ns if action is request.action]
    is_new = request.claim_id not in state.claims  # a change of a cap in force is not new
    for most, over_ns, period in (
        (limits.actions_per_hour, HOUR_NS, "an hour"),
        (limits.actions_per_day, DAY_NS, "a day"),
    ):
        if is_new and sum(age_ns < over_ns for age_ns in ages_ns) >= most:
            return f"the budget of {most} new {request.action.value} actions {period} is used up"
    capped = len(state.capped.union(targets_of(request, state)))
    if request.knob is not KnobKind.FAN and limits.capped_gpus_max is not None and capped > limits.capped_gpus_max:
        return f"{capped} GPUs would be capped, at most {limits.capped_gpus_max} allowed"
    return ""
