"""Voltage and current of every 12 V rail that the kernel's hwmon drivers measure, at the fast rate."""

from pathlib import Path

from agent.collectors.attribute_file import AttributeFile
from agent.collectors.hwmon_tree import Rail, survey_rails
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass

_MILLI = 1e-3
_VOLTAGE, _CURRENT = 0, 1
# Outside this a 12 V reading is a dead or disturbed sensor. Above: a supply has shut down by then (over-voltage trips
# at 15.6 V at most: Intel, Desktop Platform Form Factors Power Supply Design Guide, 336521, over-voltage protection).
# Below: own choice, half the rail; the node that reads it would be off.
_PLAUSIBLE_V = (6.0, 16.0)


def rail_entities(rails: tuple[Rail, ...]) -> tuple[Entity, ...]:
    """Give the rails as supplies."""
    return tuple(
        Entity(kind=EntityKind.SUPPLY, key=rail.key, name=rail.key, tags=(("sensor", rail.device),)) for rail in rails
    )


class Hwmon:
    """The rails found under a sysfs root when it was made; one that vanishes is NaN until it is back.

    Voltage and current of a rail are read right after one another, so both are of the sensor's newest conversion.
    """

    name = "supply"
    rate = RateClass.FAST

    def __init__(self, sysfs_root: Path) -> None:
        survey = survey_rails(sysfs_root)
        self.rails, self.not_plausible = survey.rails, survey.not_plausible
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.SUPPLY,
            entities=rail_entities(self.rails),
            signals=("voltage_v", "current_a"),
        )
        self._files = [
            (
                AttributeFile(rail.voltage, factor=_MILLI),
                None if rail.current is None else AttributeFile(rail.current, factor=_MILLI),
            )
            for rail in self.rails
        ]

    def open(self) -> None:
        """Nothing to open: the first read opens each file."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_rails, 2)`` with volts and amperes; a voltage that no live rail has is NaN."""
        for row, (voltage, current) in enumerate(self._files):
            voltage_v = voltage.read()
            is_plausible = _PLAUSIBLE_V[0] <= voltage_v <= _PLAUSIBLE_V[1]
            values[row, _VOLTAGE] = voltage_v if is_plausible else float("nan")
            values[row, _CURRENT] = float("nan") if current is None else current.read()

    def close(self) -> None:
        """Let the descriptors go; closing twice is harmless."""
        for voltage, current in self._files:
            voltage.close()
            if current is not None:
                current.close()
