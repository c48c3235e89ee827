"""One change of a knob, planned and not yet made."""

from dataclasses import dataclass

from agent.actuation.hold import Hold
from telemetry.records import ActionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A hold with its claims as they should become, and how to report it when the knob has followed.

    `again` asks for a write also where nothing seems to differ.
    """

    hold: Hold
    earlier: Hold | None
    in_force: float | None
    state: ActionState
    reason: str
    again: bool = False

    @property
    def writes(self) -> bool:
        """Whether the hardware has to be touched."""
        return self.hold.must_write(self.in_force) or (self.again and self.hold.enforcing)
