"""Collectors of rails other than 12 V, power supplies, fans and temperatures of the hwmon tree."""

from pathlib import Path

from agent.collectors.hwmon.board import (
    SupplyDevice,
    survey_fans,
    survey_other_rails,
    survey_supplies,
    survey_temperatures,
)
from agent.collectors.hwmon.rails import RailTable, SweepOptions
from agent.collectors.sysfs.attribute_table import AttributeTable, Cell, Extreme, Flags, attribute
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.signals import Source, signals_of

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
_RAIL_SIGNALS = ("rail_voltage_v", "rail_current_a", "rail_voltage_min_v", "rail_current_max_a")
RAILS, SUPPLIES, FANS, TEMPERATURES = "rails", "board_supplies", "board_fans", "board"


def other_rails(sysfs_root: Path, sweeping: SweepOptions | None = None) -> RailTable | None:
    """Return the rails of other voltages than 12 V at the fast rate, None where there is none."""
    found = survey_other_rails(sysfs_root)
    if not found:
        return None
    return RailTable(
        RAILS,
        [other.rail for other in found],
        _RAIL_SIGNALS,
        plausible_v=[other.plausible_v for other in found],
        sweeping=sweeping,
    )


def supply_table(sysfs_root: Path) -> AttributeTable | None:
    """Return the PMBus power supplies, None where there is none."""
    found = survey_supplies(sysfs_root)
    entities = tuple(
        Entity(kind=EntityKind.SUPPLY, key=supply.key, name=supply.key, tags=(("sensor", supply.chip),))
        for supply in found
    )
    spec = TableSpec(name=SUPPLIES, kind=EntityKind.SUPPLY, entities=entities, signals=_SUPPLY_SIGNALS)
    return AttributeTable(spec, [_supply_cells(supply) for supply in found]) if found else None


def _supply_cells(supply: SupplyDevice) -> list[Cell | None]:
    cells: list[Cell | None] = []
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
    entity = Entity(kind=EntityKind.NODE, key=node, name=node)
    spec = TableSpec(name=TEMPERATURES, kind=EntityKind.NODE, entities=(entity,), signals=tuple(names))
    cells = [Extreme(found[name], max, factor=_MILLI, plausible=_PLAUSIBLE_C) for name in names]
    return AttributeTable(spec, [cells]) if names else None
