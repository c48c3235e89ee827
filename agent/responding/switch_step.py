"""Next step for a switch, from its state and its claims; pure."""

from enum import Enum, auto

from agent.responding.port import Held, SwitchState
from agent.responding.work import HeldSwitch, Stage


class SwitchStep(Enum):
    """Next step for a switch."""

    KEEP = auto()
    ENGAGE = auto()
    LANDED = auto()
    RELEASE = auto()
    GONE = auto()
    ABANDON = auto()


def plan(hold: HeldSwitch, standing: SwitchState) -> SwitchStep:
    """Return the step that brings a switch to the state that its claims want.

    A switch that we were about to change may have either state. One that we had changed and that has another state was
    changed by someone else.
    """
    ours = is_ours(standing, hold.token)
    if not hold.claims:
        return SwitchStep.RELEASE if ours else SwitchStep.GONE
    if hold.stage is Stage.ENGAGED:
        return SwitchStep.KEEP if ours else SwitchStep.ABANDON
    if ours:
        return SwitchStep.LANDED
    return SwitchStep.ENGAGE if standing.held is Held.FREE else SwitchStep.ABANDON


def is_ours(standing: SwitchState, token: str) -> bool:
    """Return True if railwatch switched it on with this token."""
    return standing.held is Held.OURS and standing.token in (None, token)
