"""Whether and how far a cap in force is made stricter. Pure: claim and moment in, clock and reason out."""

from collections.abc import Sequence
from dataclasses import dataclass

from rules.cap import describe, safe_clock, voltage_cap
from rules.claims import Claim
from rules.node import NodeState
from rules.policy import Persist, Response
from rules.rails import Rails
from rules.targets import at_or_below
from telemetry.clock import NS_PER_S
from telemetry.records import Incident

# A symptom that outlives its cap is met with this share of it. Multiplicative decrease, as in the congestion control
# of Chiu and Jain (1989), doi 10.1016/0169-7552(89)90019-6; the size of the step is this project's choice.
STRICTER = 0.85
# The source resistance is known to about two per cent, so a smaller change of the computed clock is noise; without
# this a cap would creep down to the worst estimate ever made.
DEADBAND = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightening:
    """What to do with a cap whose symptom is still there.

    `clock_mhz` is None where it stays as it is; `exhausted` then says that it ought to go lower and cannot.
    `returned` tells that the symptom came back after the cap had been relaxed.
    """

    clock_mhz: float | None = None
    reason: str = ""
    returned: bool = False
    exhausted: bool = False


def tighten(
    claim: Claim,
    response: Response,
    incident: Incident,
    node: NodeState,
    rails: Rails,
    *,
    clocks_mhz: Sequence[float],
    now_ns: int,
) -> Tightening:
    """Decide on a claim whose incident is open."""
    hold_v = None if response.clock is None else response.clock.hold_v
    if claim.bases and hold_v is not None:
        answer = voltage_cap(claim.bases, incident, node, clocks_mhz=clocks_mhz, hold_v=hold_v)
        if answer.clock_mhz < claim.lowest_mhz * (1.0 - DEADBAND):
            returned = claim.relaxed_ns is not None
            reason = f"{describe(answer, hold_v)}; {claim.lowest_mhz:g} MHz no longer does"
            return Tightening(clock_mhz=answer.clock_mhz, reason=reason, returned=returned)
    returned = claim.relaxed_ns is not None
    if not returned:
        if response.persist is Persist.HOLD:
            return Tightening()
        if now_ns - claim.tightened_ns < response.settle_s * NS_PER_S or not _persists(incident, node, claim):
            return Tightening()
        why = f"the symptom is still there {response.settle_s:g} s after the cap"
    else:
        why = "the symptom came back after the cap was relaxed"
    ratio = rails.safe_resistance_ratio
    predicted_mhz = safe_clock(
        claim.bases, incident, node, clocks_mhz=clocks_mhz, hold_v=hold_v, resistance_ratio=ratio
    )
    safe_mhz = clocks_mhz[0] if predicted_mhz is None else predicted_mhz
    clock_mhz = max(safe_mhz, at_or_below(clocks_mhz, STRICTER * claim.lowest_mhz))
    if returned:
        clock_mhz = min(clock_mhz, claim.held_mhz)
    if clock_mhz >= claim.lowest_mhz:
        return Tightening(reason=f"{why}, and {claim.lowest_mhz:g} MHz is the safe clock", exhausted=True)
    return Tightening(clock_mhz=clock_mhz, reason=f"{why}; safe clock {safe_mhz:g} MHz", returned=returned)


def _persists(incident: Incident, node: NodeState, claim: Claim) -> bool:
    """Tell whether the symptom is still there: what the supplies show now, else what the incident says."""
    limit_v = incident.number("limit_v")
    lowest = [
        supply.minimum_v
        for name in claim.supplies
        if (supply := node.supply(name)) is not None and supply.minimum_v is not None
    ]
    if limit_v is None or not lowest:
        return True
    return min(lowest) < limit_v
