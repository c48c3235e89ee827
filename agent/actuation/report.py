"""What is told of a change to a clock knob."""

from agent.actuation.claims import Claim
from agent.actuation.hold import Hold
from telemetry.records import Action, ActionState


def action_id(claim: Claim, hold: Hold) -> str:
    """Give the id of an incident's action on one GPU: the same from the first cap to the release."""
    return f"clock_cap:{claim.incident_id}:{hold.target.uuid}"


def action_of(
    hold: Hold, claim: Claim, state: ActionState, *, reason: str, read_back: float | None, time_ns: int
) -> Action:
    """Give the action that tells where a claim stands now."""
    return Action(
        id=action_id(claim, hold),
        time_ns=time_ns,
        decision_id=claim.decision_id,
        incident_id=claim.incident_id,
        knob=hold.knob,
        entity_id=hold.target.entity_id,
        unit="MHz",
        found=hold.found,
        wanted=hold.setting,
        read_back=read_back,
        state=state,
        mode=claim.mode,
        lease_until_ns=claim.lease_until_ns,
        owner=claim.owner,
        reason=reason,
    )


def mhz_text(clock_mhz: float | None) -> str:
    """Give a setting in words."""
    return "unset" if clock_mhz is None else f"{clock_mhz:g} MHz"
