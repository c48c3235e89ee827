"""Planned change of a knob."""

from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob
from telemetry.records import ActionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Held knob with its new claims, and the action to report after the write.

    `again` requests a write even if the knob seems to have the setting.
    """

    hold: HeldKnob
    earlier: HeldKnob | None
    in_force: float | None
    state: ActionState
    reason: str
    again: bool = False

    @property
    def writes(self) -> bool:
        """Whether the hardware has to be written."""
        return self.hold.must_write(self.in_force) or (self.again and self.hold.enforcing)

    @property
    def protects(self) -> bool:
        """Whether the change makes the knob stricter; one that reads as unset is at its loosest."""
        aim, now = self.hold.setting, self.in_force
        return aim is not None and (now is None or (aim != now and self.hold.kind.strictest(aim, now) == aim))
