"""One change of a knob, planned and not yet made."""

from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob
from telemetry.records import ActionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A hold with its claims as they should become, and how to report it when the knob has followed.

    `again` asks for a write also where nothing seems to differ.
    """

    hold: HeldKnob
    earlier: HeldKnob | None
    in_force: float | None
    state: ActionState
    reason: str
    again: bool = False

    @property
    def writes(self) -> bool:
        """Whether the hardware has to be touched."""
        return self.hold.must_write(self.in_force) or (self.again and self.hold.enforcing)

    @property
    def protects(self) -> bool:
        """Whether the knob is to stand stricter than it does; one that reads as unset stands at its loosest."""
        aim, now = self.hold.setting, self.in_force
        return aim is not None and (now is None or (aim != now and self.hold.kind.strictest(aim, now) == aim))
