"""Relaxing of a cap in force. Pure: cap and present state in, one GPU and its next setting out."""

from dataclasses import dataclass, replace

from physics.node_state import NodeState, SupplyState
from rules.caps.knobs import Scale
from rules.caps.setting import predict
from rules.engine.claims import CapClaim, SteadyResistance
from rules.limits.node import NodeLimits
from rules.policy.model import Release, Response
from telemetry.clock import NS_PER_S
from telemetry.records import Incident

# A source resistance that moves less than this is steady. heuristic: the rise at which an ageing joint is reported,
# five times the two per cent to which the resistance is known.
STEADY_RATIO = 0.10


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
    node: NodeState,
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


def steadied(claim: CapClaim, node: NodeState, now_ns: int) -> CapClaim:
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
    node: NodeState,
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
        doubt = _doubt(node.supply(name), name, above_v=hold_v + release.margin_v)
        if doubt is not None:
            return doubt
        if now_ns - steady[name].since_ns < release.every_s * NS_PER_S:
            return f"the source resistance of {name} is not steady"
    if claim.bases:
        answer = predict(claim.bases, incident, node, scale=scale, hold_v=hold_v)
        most = scale.looser(answer.setting)
        if claim.round_setting is None or scale.stricter(most, claim.round_setting):
            knob = claim.knob
            return f"{knob.text(answer.setting)} is the highest {knob.label} predicted to hold {hold_v:.2f} V"
    return None


def _doubt(supply: SupplyState | None, name: str, *, above_v: float) -> str | None:
    if supply is None or supply.minimum_v is None:
        return f"the voltage of {name} is not known"
    if supply.source_resistance_ohm is None:
        return f"the source resistance of {name} is not known"
    if supply.minimum_v <= above_v:
        return f"{name} is at {supply.minimum_v:.2f} V, not above {above_v:.2f} V"
    return None
