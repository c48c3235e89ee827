"""Tightening and relaxing of a cap in force. Pure: cap and present state in, setting and reason out."""

from dataclasses import dataclass, replace

from physics.node_state import MeasuredNode, MeasuredSupply
from rules.caps.board_bus import shown_late_s
from rules.caps.knobs import Scale
from rules.caps.setting import describe, predict, safe_setting
from rules.engine.claims import CapClaim, SteadyResistance
from rules.limits.node import NodeLimits
from rules.policy.model import Persist, Release, Response
from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind
from telemetry.records import Cause, FindingStatus, Incident, IncidentState

# Share of the cap for a symptom that outlives it. Multiplicative decrease, as in the congestion control
# of Chiu and Jain (1989), doi 10.1016/0169-7552(89)90019-6; the size of the step is a heuristic.
STRICTER = 0.85
# heuristic: the source resistance is known to about two per cent, so a change of the computed clock that is hardly
# larger is noise. Without this a cap would creep down to the worst estimate ever made, and it already uses the cautious
# bound of one.
DEADBAND = 0.025
# A rail this far below the voltage to hold does not wait for `settle`. heuristic: with the margin of a release it makes
# a hysteresis of 0.1 V, twice the noise of a rail's hourly minimum in simulated months.
DEEP_V = 0.05
# heuristic: two training steps of about a second for a cap to take effect, and the three seconds of rows from which a
# supply is judged.
DEEP_AFTER_S = 5.0
# A source resistance that moves less than this is steady. heuristic: the rise at which an ageing joint is reported,
# five times the two per cent to which the resistance is known.
STEADY_RATIO = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightening:
    """Step of a cap whose symptom is still present.

    `setting` is None if it stays as it is; `exhausted` means that it should be stricter and cannot be, `useless` that
    the cap does not remove the symptom and is to be released. `returned` means that the symptom came back after the
    setting had been relaxed.
    """

    setting: float | None = None
    reason: str = ""
    returned: bool = False
    exhausted: bool = False
    useless: bool = False


def tighten(
    claim: CapClaim,
    response: Response,
    incident: Incident,
    node: MeasuredNode,
    limits: NodeLimits,
    *,
    scale: Scale,
    now_ns: int,
) -> Tightening:
    """Return the step of a cap; if its incident is not open, only for what cannot wait."""
    hold_v = None if response.setting is None else response.setting.hold_v
    knob = scale.knob
    returned = claim.relaxed_ns is not None
    if claim.bases and hold_v is not None:  # also while the cap holds the symptom down: the path goes on ageing
        answer = predict(claim.bases, incident, node, scale=scale, hold_v=hold_v)
        if scale.stricter(answer.setting, scale.fraction(claim.strictest, 1.0 - DEADBAND)):
            outdated = f" ({knob.text(claim.strictest)} does not)" if answer.holds else ""
            reason = f"{describe(answer, knob)}{outdated}"
            came_back = returned and incident.state is IncidentState.OPEN
            return Tightening(setting=answer.setting, reason=reason, returned=came_back)
    age_s = (now_ns - claim.tightened_ns) / NS_PER_S
    deep = _deep(claim, incident, node, hold_v=hold_v) if age_s >= min(DEEP_AFTER_S, response.settle_s) else None
    why = deep or _lasting(claim, response, incident, node, age_s=age_s)
    if why is None:
        return Tightening()
    if response.persist is Persist.RELEASE and deep is None and not returned:
        return Tightening(reason=f"{why}: it does not remove the symptom and only costs work", useless=True)
    ratio = limits.safe_resistance_ratio
    predicted = safe_setting(claim.bases, incident, node, scale=scale, hold_v=hold_v, resistance_ratio=ratio)
    safe = scale.strictest if predicted is None else predicted
    setting = scale.snap(scale.fraction(claim.strictest, STRICTER))
    if scale.stricter(setting, safe):
        setting = safe
    if returned and scale.stricter(claim.held, setting):
        setting = claim.held
    if not scale.stricter(setting, claim.strictest):
        reason = f"{why}; it stays: {knob.text(claim.strictest)} is the safe {knob.label}"
        return Tightening(reason=reason, exhausted=True)
    beyond = "above" if knob is KnobKind.FAN else "below"
    return Tightening(
        setting=setting,
        reason=f"{why}; set {knob.text(setting)}, never {beyond} the safe {knob.label} of {knob.text(safe)}",
        returned=returned,
    )


def _lasting(
    claim: CapClaim, response: Response, incident: Incident, node: MeasuredNode, *, age_s: float
) -> str | None:
    """Return which symptom lasts or returned under the setting; None if there is none."""
    if incident.state is not IncidentState.OPEN:
        return None
    if claim.relaxed_ns is not None:
        return f"the symptom came back after the {claim.knob.label} was relaxed"
    settle_s = response.settle_s + shown_late_s(incident)
    if response.persist is Persist.HOLD or age_s < settle_s or not _persists(incident, node, claim):
        return None
    what = "cap" if claim.knob is not KnobKind.FAN else "fan"
    if claim.cleared_ns is not None and claim.returned_ns is not None:
        cleared_s, returned_s = ((at - claim.tightened_ns) / NS_PER_S for at in (claim.cleared_ns, claim.returned_ns))
        return f"the symptom cleared {cleared_s:.0f} s after the {what} and returned {returned_s:.0f} s after it"
    return f"symptom still present {settle_s:g} s after the {what}"


def _deep(claim: CapClaim, incident: Incident, node: MeasuredNode, *, hold_v: float | None) -> str | None:
    """Return the reason not to wait: a rail far below the voltage to hold, or a power brake under a cap for a rail."""
    if hold_v is None:
        return None
    lowest = _lowest(node, claim)
    if lowest is not None and lowest[0] < lowest[1] * (hold_v - DEEP_V):
        lowest_v, scale = lowest
        return f"{lowest_v:.2f} V is more than {scale * DEEP_V:g} V below the {scale * hold_v:.2f} V to hold"
    since_ns = claim.tightened_ns + int(DEEP_AFTER_S * NS_PER_S)
    for finding in incident.findings:
        if (
            finding.cause is Cause.POWER_BRAKE
            and finding.status is not FindingStatus.CLEARED
            and finding.time_ns > since_ns
        ):
            return "the power brake was asserted under the cap"
    return None


def _lowest(node: MeasuredNode, claim: CapClaim) -> tuple[float, float] | None:
    """Return the voltage of the supply that is lowest for its nominal voltage, with the scale of its limits."""
    known = [
        (supply.minimum_v, supply.limit_scale)
        for name in claim.supplies
        if (supply := node.supply(name)) is not None and supply.minimum_v is not None
    ]
    return min(known, key=lambda one: one[0] / one[1], default=None)


def _persists(incident: Incident, node: MeasuredNode, claim: CapClaim) -> bool:
    """Return True if the symptom is still present, by the present voltage if known, else by the incident.

    Voltage and limit may be those of rails of two nominal voltages: each is compared at 12 V.
    """
    limited = [one for one in incident.findings if one.number("limit_v") is not None]
    lowest = _lowest(node, claim)
    if not limited or lowest is None:
        return True
    newest = max(limited, key=lambda one: one.time_ns)
    limit_v, supply = newest.number("limit_v") or 0.0, node.supply(newest.entity_id)
    return lowest[0] / lowest[1] < limit_v / (lowest[1] if supply is None else supply.limit_scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The next step: `gpu` is None if there is none now, and `refused` is then the reason to report, if any.

    `setting` is None if the cap of the GPU is released. `claim` holds the round that the step belongs to.
    """

    claim: CapClaim
    gpu: str | None = None
    setting: float | None = None
    reason: str = ""
    refused: str | None = None


def relax(
    claim: CapClaim,
    response: Response,
    incident: Incident,
    node: MeasuredNode,
    limits: NodeLimits,
    *,
    scale: Scale,
    now_ns: int,
) -> Relaxation:
    """Return the step of a cap whose symptom has been absent since `claim.quiet_since_ns`.

    In a round all its GPUs go up by one setting, one after the other, so that they do not rise together.
    """
    release = response.release
    quiet_ns = claim.quiet_since_ns
    if release is None or quiet_ns is None:
        return Relaxation(claim=claim)
    claim = steadied(claim, node, now_ns)
    if now_ns - max(quiet_ns, claim.tightened_ns) < release.after_s * NS_PER_S:
        return Relaxation(claim=claim)
    if not claim.round_left:
        if claim.round_ns is not None and now_ns - claim.round_ns < release.every_s * NS_PER_S:
            return Relaxation(claim=claim)
        target = scale.looser(claim.strictest)
        left = tuple(gpu for gpu, setting in claim.settings if scale.stricter(setting, target)) or claim.gpus
        begun = replace(claim, round_ns=now_ns, round_setting=target, round_left=left)
    elif claim.relaxed_ns is not None and now_ns - claim.relaxed_ns < limits.stagger_s * NS_PER_S:
        return Relaxation(claim=claim)
    else:
        begun = claim
    # Checked again for every GPU: the supply that carries the step of the first one need not carry that of the last.
    refused = _refusal(begun, response, release, incident, node, scale=scale, now_ns=now_ns)
    if refused is not None:
        return Relaxation(claim=claim, refused=refused)
    to = begun.round_setting
    minutes = (now_ns - quiet_ns) / NS_PER_S / 60.0
    return Relaxation(
        claim=begun,
        gpu=begun.round_left[0],
        setting=to if to is not None and scale.stricter(to, scale.loosest) else None,
        reason=f"no symptom for {minutes:.0f} min; one {claim.knob.label} step, one GPU at a time",
    )


def steadied(claim: CapClaim, node: MeasuredNode, now_ns: int) -> CapClaim:
    """Return the cap with the time since which the source resistance of each of its supplies is steady."""
    before = {item.entity_id: item for item in claim.steady}
    now = []
    for name in claim.supplies:
        supply, was = node.supply(name), before.get(name)
        ohm = None if supply is None else supply.source_resistance_ohm
        if ohm is None:
            now += [] if was is None else [was]
        elif was is None or abs(ohm - was.resistance_ohm) > STEADY_RATIO * was.resistance_ohm:
            now.append(SteadyResistance(entity_id=name, resistance_ohm=ohm, since_ns=now_ns))
        else:
            now.append(was)
    return claim if tuple(now) == claim.steady else replace(claim, steady=tuple(now))


def _refusal(
    claim: CapClaim,
    response: Response,
    release: Release,
    incident: Incident,
    node: MeasuredNode,
    *,
    scale: Scale,
    now_ns: int,
) -> str | None:
    """Return why a cap for a voltage stays: nothing goes up unless the supply is known to carry it."""
    hold_v = None if response.setting is None else response.setting.hold_v
    if hold_v is None:
        return None
    steady = {item.entity_id: item for item in claim.steady}
    for name in claim.supplies:
        doubt = _doubt(node.supply(name), name, above_12_v=hold_v + release.margin_v)
        if doubt is not None:
            return doubt
        if now_ns - steady[name].since_ns < release.every_s * NS_PER_S:
            return f"the source resistance of {name} is not steady"
    if claim.bases:
        answer = predict(claim.bases, incident, node, scale=scale, hold_v=hold_v)
        most = scale.looser(answer.setting)
        if claim.round_setting is None or scale.stricter(most, claim.round_setting):
            knob = claim.knob
            return f"{knob.text(answer.setting)} is the highest {knob.label} predicted to hold {answer.limit_v:.2f} V"
    return None


def _doubt(supply: MeasuredSupply | None, name: str, *, above_12_v: float) -> str | None:
    """Return why a supply is not known to be above a voltage, which is `above_12_v` on a rail of 12 V."""
    if supply is None or supply.minimum_v is None:
        return f"the voltage of {name} is not known"
    if supply.source_resistance_ohm is None:
        return f"the source resistance of {name} is not known"
    above_v = supply.limit_scale * above_12_v
    if supply.minimum_v <= above_v:
        return f"{name} is at {supply.minimum_v:.2f} V, not above {above_v:.2f} V"
    return None
