"""What of a GPU can be turned to protect it: the agent turns it, the rules ask for it, the simulator has it."""

from enum import StrEnum


class KnobKind(StrEnum):
    """One knob of a GPU; its value is the name of the class of actions that turns it."""

    CLOCK = "clock_cap"
    POWER = "power_cap"
    FAN = "fan"

    @property
    def unit(self) -> str:
        """The unit of its settings."""
        return _UNITS[self]

    @property
    def label(self) -> str:
        """What people call it."""
        return _WORDS[self]

    def strictest(self, *settings: float) -> float:
        """Return the setting that protects most: the fastest fan, the lowest of everything else."""
        return max(settings) if self is KnobKind.FAN else min(settings)

    def text(self, setting: float | None) -> str:
        """Return a setting in words."""
        if setting is None:
            return "unset"
        return f"{setting:.0%}" if self is KnobKind.FAN else f"{setting:g} {self.unit}"


_UNITS = {KnobKind.CLOCK: "MHz", KnobKind.POWER: "W", KnobKind.FAN: "ratio"}
_WORDS = {KnobKind.CLOCK: "clock", KnobKind.POWER: "power limit", KnobKind.FAN: "fan speed"}
