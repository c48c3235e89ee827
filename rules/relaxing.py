"""Whether and how far a cap in force is relaxed. Pure: claim and moment in, one GPU and its next clock out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rules.cap import voltage_cap
from rules.claims import Claim
from rules.node import NodeState, SupplyState
from rules.policy import Release, Response
from rules.rails import Rails
from rules.targets import next_above
from telemetry.clock import NS_PER_S
from telemetry.records import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The next step up: `gpu` is None where there is none now, and `refused` then says why, if it is worth saying.

    `clock_mhz` is None where the GPU's cap goes altogether. `claim` carries the round that the step belongs to.
    """

    claim: Claim
    gpu: str | None = None
    clock_mhz: float | None = None
    reason: str = ""
    refused: str | None = None


def relax(
    claim: Claim,
    response: Response,
    incident: Incident,
    node: NodeState,
    rails: Rails,
    *,
    clocks_mhz: Sequence[float],
    now_ns: int,
) -> Relaxation:
    """Decide on a claim whose symptom is gone; `claim.quiet_since_ns` says since when.

    All its GPUs go up by one clock in a round, one after the other, so that they do not rise together.
    """
    release = response.release
    quiet_ns = claim.quiet_since_ns
    if release is None or quiet_ns is None:
        return Relaxation(claim=claim)
    if now_ns - max(quiet_ns, claim.tightened_ns) < release.after_s * NS_PER_S:
        return Relaxation(claim=claim)
    if not claim.round_left:
        if claim.round_ns is not None and now_ns - claim.round_ns < release.every_s * NS_PER_S:
            return Relaxation(claim=claim)
        target_mhz = next_above(clocks_mhz, claim.lowest_mhz)
        left = tuple(gpu for gpu, cap_mhz in claim.clocks if cap_mhz < target_mhz) or claim.gpus
        begun = replace(claim, round_ns=now_ns, round_mhz=target_mhz, round_left=left)
    elif claim.relaxed_ns is not None and now_ns - claim.relaxed_ns < rails.stagger_s * NS_PER_S:
        return Relaxation(claim=claim)
    else:
        begun = claim
    # Asked for every GPU anew: the supply that carried the first one's step need not carry the last one's.
    refused = _refusal(begun, response, release, incident, node, clocks_mhz=clocks_mhz)
    if refused is not None:
        return Relaxation(claim=claim, refused=refused)
    clock_mhz = begun.round_mhz if begun.round_mhz is not None and begun.round_mhz < clocks_mhz[-1] else None
    minutes = (now_ns - quiet_ns) / NS_PER_S / 60.0
    return Relaxation(
        claim=begun,
        gpu=begun.round_left[0],
        clock_mhz=clock_mhz,
        reason=f"no symptom for {minutes:.0f} min; one clock step up, one GPU at a time",
    )


def _refusal(
    claim: Claim,
    response: Response,
    release: Release,
    incident: Incident,
    node: NodeState,
    *,
    clocks_mhz: Sequence[float],
) -> str | None:
    """Say why a cap that answers a voltage stays: nothing goes up while the supply is not known to carry it."""
    hold_v = None if response.clock is None else response.clock.hold_v
    if hold_v is None:
        return None
    for name in claim.supplies:
        doubt = _doubt(node.supply(name), name, above_v=hold_v + release.margin_v)
        if doubt is not None:
            return doubt
    if claim.bases:
        answer = voltage_cap(claim.bases, incident, node, clocks_mhz=clocks_mhz, hold_v=hold_v)
        if claim.round_mhz is None or claim.round_mhz > next_above(clocks_mhz, answer.clock_mhz):
            return f"{answer.clock_mhz:g} MHz is the highest clock predicted to hold {hold_v:.2f} V"
    return None


def _doubt(supply: SupplyState | None, name: str, *, above_v: float) -> str | None:
    if supply is None or supply.minimum_v is None:
        return f"the voltage of {name} is not known"
    if supply.source_resistance_ohm is None:
        return f"the source resistance of {name} is not known"
    if supply.minimum_v <= above_v:
        return f"{name} stands at {supply.minimum_v:.2f} V, not above {above_v:.2f} V"
    return None
