"""Collectors of power supplies, fans and temperatures of the hwmon tree.

A cell of a table is one sysfs attribute, or a combination of a few.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from agent.collectors.hwmon.board import (
    SupplyDevice,
    survey_fans,
    survey_supplies,
    survey_temperatures,
)
from agent.collectors.sysfs.attribute_file import AttributeFile
from agent.collectors.tables import node_entity
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_NAN = float("nan")
# Reads are a second apart, so a missing file is opened again each time.
_REOPEN_AFTER_READS = 0
_MILLI, _MICRO = 1e-3, 1e-6
# An unwired input reads as the end of its scale: -128, -55, 127 or 255 degrees on common chips.
_PLAUSIBLE_C = (-40.0, 126.0)
# By signal: the PMBus label that it is read from and the factor to its unit.
_LABELS = {
    "input_voltage_v": ("vin", _MILLI),
    "input_current_a": ("iin", _MILLI),
    "input_power_w": ("pin", _MICRO),
    "output_voltage_v": ("vout1", _MILLI),
    "output_current_a": ("iout1", _MILLI),
    "power_w": ("pout1", _MICRO),
}
_SUPPLY_SIGNALS = (*_LABELS, "supply_temp_c", "fan_rpm", "supply_alarms")
SUPPLIES, FANS, TEMPERATURES = "board_supplies", "board_fans", "board"


class HwmonCell(Protocol):
    """A value of the table."""

    def read(self) -> float:
        """Return the value, NaN where there is none now."""
        ...

    def close(self) -> None:
        """Close all files; reading opens them again."""
        ...


def attribute(path: Path, factor: float = 1.0) -> AttributeFile:
    """Return one attribute as a cell."""
    return AttributeFile(path, factor=factor, reopen_after_reads=_REOPEN_AFTER_READS)


class Extreme:
    """The highest or lowest of several attributes, over those that hold a plausible number now."""

    def __init__(
        self,
        paths: Sequence[Path],
        choose: Callable[[Sequence[float]], float],
        *,
        factor: float = 1.0,
        plausible: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        self._files = [attribute(path, factor) for path in paths]
        self._choose = choose
        self._lowest, self._highest = plausible

    def read(self) -> float:
        """Return the extreme, NaN where none of them holds a number."""
        known = [value for file in self._files if self._lowest <= (value := file.read()) <= self._highest]
        return self._choose(known) if known else _NAN

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files:
            file.close()


class Flags:
    """A bit for each attribute that is not 0; several may share one."""

    def __init__(self, bits: Sequence[tuple[Path, int]]) -> None:
        self._files = [(attribute(path), bit) for path, bit in bits]

    def read(self) -> float:
        """Return the bits that are set; NaN, not 0, where no attribute can be read."""
        flags, known = 0, False
        for file, bit in self._files:
            value = file.read()
            known |= not math.isnan(value)
            flags |= bit if value > 0 else 0
        return float(flags) if known else _NAN

    def close(self) -> None:
        """Close the descriptors."""
        for file, _ in self._files:
            file.close()


class AttributeTable:
    """A collector over cells, one per signal and entity; None for a signal that an entity does not have."""

    rate = RateClass.SLOW

    def __init__(self, spec: TableSpec, cells: Sequence[Sequence[HwmonCell | None]]) -> None:
        self.name = spec.name
        self.spec = spec
        self._cells = tuple(tuple(row) for row in cells)

    def open(self) -> None:
        """Do nothing: the first read opens each file."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_entities, n_signals)``."""
        for number, row in enumerate(self._cells):
            values[number] = [_NAN if cell is None else cell.read() for cell in row]

    def close(self) -> None:
        """Close the descriptors; closing twice is harmless."""
        for row in self._cells:
            for cell in row:
                if cell is not None:
                    cell.close()


def supply_table(sysfs_root: Path) -> AttributeTable | None:
    """Return the PMBus power supplies, None where there is none."""
    found = survey_supplies(sysfs_root)
    entities = tuple(
        Entity(kind=EntityKind.SUPPLY, key=supply.key, name=supply.key, tags=(("sensor", supply.chip),))
        for supply in found
    )
    spec = TableSpec(name=SUPPLIES, kind=EntityKind.SUPPLY, entities=entities, signals=_SUPPLY_SIGNALS)
    return AttributeTable(spec, [_supply_cells(supply) for supply in found]) if found else None


def _supply_cells(supply: SupplyDevice) -> list[HwmonCell | None]:
    cells: list[HwmonCell | None] = []
    for label, factor in _LABELS.values():
        path = supply.labelled.get(label)
        cells.append(None if path is None else attribute(path, factor))
    hottest = Extreme(supply.temperatures, max, factor=_MILLI, plausible=_PLAUSIBLE_C)
    return [*cells, hottest, Extreme(supply.fans, min), Flags(supply.alarms)]


def fan_table(sysfs_root: Path) -> AttributeTable | None:
    """Return the fans of the board, None where there is none."""
    found = survey_fans(sysfs_root)
    entities = tuple(Entity(kind=EntityKind.FAN, key=key, name=key, tags=(("sensor", chip),)) for key, chip, _ in found)
    spec = TableSpec(name=FANS, kind=EntityKind.FAN, entities=entities, signals=("fan_rpm",))
    return AttributeTable(spec, [[attribute(path)] for _, _, path in found]) if found else None


def temperature_table(sysfs_root: Path, node: str) -> AttributeTable | None:
    """Return the hottest processor, memory module, drive and board sensor of the node, None where none is measured."""
    found = survey_temperatures(sysfs_root)
    names = [s.name for s in signals_of(EntityKind.NODE) if s.name in found and s.source in (Source.HWMON, Source.BMC)]
    spec = TableSpec(name=TEMPERATURES, kind=EntityKind.NODE, entities=(node_entity(node),), signals=tuple(names))
    cells = [Extreme(found[name], max, factor=_MILLI, plausible=_PLAUSIBLE_C) for name in names]
    return AttributeTable(spec, [cells]) if names else None
