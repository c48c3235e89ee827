"""What has to be done about a switch, from where it stands and what is claimed; pure."""

from enum import Enum, auto

from agent.responding.port import Held, SwitchState
from agent.responding.work import HeldSwitch, Stage


class SwitchStep(Enum):
    """What has to be done about a switch."""

    KEEP = auto()
    ENGAGE = auto()
    LANDED = auto()
    RELEASE = auto()
    GONE = auto()
    GIVE_UP = auto()


def plan(hold: HeldSwitch, standing: SwitchState) -> SwitchStep:
    """Return what brings a switch from where it stands to where its claims want it; pure.

    One that we were about to move may be as it was or as it was to be. One that we had moved and that stands otherwise
    was moved by somebody else.
    """
    ours = is_ours(standing, hold.token)
    if not hold.claims:
        return SwitchStep.RELEASE if ours else SwitchStep.GONE
    if hold.stage is Stage.ENGAGED:
        return SwitchStep.KEEP if ours else SwitchStep.GIVE_UP
    if ours:
        return SwitchStep.LANDED
    return SwitchStep.ENGAGE if standing.held is Held.FREE else SwitchStep.GIVE_UP


def is_ours(standing: SwitchState, token: str) -> bool:
    """Return whether a switch is on by the hand that has this token."""
    return standing.held is Held.OURS and standing.token in (None, token)
