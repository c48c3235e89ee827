"""Settings of a GPU that protect it: clock cap, power limit and fan."""

from enum import StrEnum


class KnobKind(StrEnum):
    """Setting of a GPU; its value is the name of the action class that changes it."""

    CLOCK = "clock_cap"
    POWER = "power_cap"
    FAN = "fan"

    @property
    def unit(self) -> str:
        """Unit of the setting."""
        return _UNITS[self]

    @property
    def label(self) -> str:
        """Name for operators."""
        return _NAMES[self]

    def strictest(self, *settings: float) -> float:
        """Return the setting that protects most: the fastest fan, else the lowest."""
        return max(settings) if self is KnobKind.FAN else min(settings)

    def text(self, setting: float | None) -> str:
        """Return a setting as text for operators."""
        if setting is None:
            return "unset"
        return f"{setting:.0%}" if self is KnobKind.FAN else f"{setting:g} {self.unit}"


_UNITS = {KnobKind.CLOCK: "MHz", KnobKind.POWER: "W", KnobKind.FAN: "ratio"}
_NAMES = {KnobKind.CLOCK: "clock", KnobKind.POWER: "power limit", KnobKind.FAN: "fan speed"}
