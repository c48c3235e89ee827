"""What has to be done about a switch, from where it stands and what is claimed; pure."""

from enum import Enum, auto

from agent.responding.port import Held, Standing
from agent.responding.work import Hold, Stage


class Step(Enum):
    """What has to be done about a switch."""

    KEEP = auto()
    ENGAGE = auto()
    LANDED = auto()
    RELEASE = auto()
    GONE = auto()
    GIVE_UP = auto()


def plan(hold: Hold, standing: Standing) -> Step:
    """Return what brings a switch from where it stands to where its claims want it; pure.

    One that we were about to move may be as it was or as it was to be. One that we had moved and that stands otherwise
    was moved by somebody else.
    """
    ours = is_ours(standing, hold.token)
    if not hold.claims:
        return Step.RELEASE if ours else Step.GONE
    if hold.stage is Stage.ENGAGED:
        return Step.KEEP if ours else Step.GIVE_UP
    if ours:
        return Step.LANDED
    return Step.ENGAGE if standing.held is Held.FREE else Step.GIVE_UP


def is_ours(standing: Standing, token: str) -> bool:
    """Return whether a switch is on by the hand that has this token."""
    return standing.held is Held.OURS and standing.token in (None, token)
