"""Factories of the hwmon collectors."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agent.collectors.hwmon.pins import GPU_PINS, PinTable, assigned, pin_devices
from agent.collectors.hwmon.rails import MAIN_RAILS, RailTable
from agent.collectors.hwmon.slow import (
    FANS,
    SUPPLIES,
    TEMPERATURES,
    fan_table,
    supply_table,
    temperature_table,
)
from agent.collectors.hwmon.tree import Rail, survey_rails
from agent.collectors.port import BuiltCollector, Collector, missing, working
from agent.collectors.registry.settings import FastSettings, SlowSettings


def hwmon(settings: FastSettings) -> BuiltCollector:
    """Build the collector of the rails."""
    survey = survey_rails(settings.sysfs_root)
    implausible = f"; implausible, ignored: {', '.join(survey.implausible)}" if survey.implausible else ""
    contradictory = f"; contradictory: {'; '.join(survey.contradictory)}" if survey.contradictory else ""
    if not survey.rails:
        return missing(
            MAIN_RAILS,
            f"no rail under {settings.sysfs_root}/class/hwmon{implausible}",
            "load the driver of the supply's PMBus interface (pmbus, ibm-cffps) or wire an INA226/INA228 to the rail",
        )
    collector = RailTable(survey.rails, settings.sweeping)
    warnings = tuple(f"nominal voltage of rail {one}" for one in survey.contradictory)
    return working(collector, _rails_text(survey.rails) + implausible + contradictory, warnings=warnings)


def board_supplies(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of PMBus power supplies."""
    how_to_get = "load the driver of the supply's PMBus interface (pmbus, crps, ibm-cffps)"
    return _built(settings, SUPPLIES, supply_table, "no PMBus power supply", how_to_get)


def board_fans(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of the board's fans."""
    how_to_get = "load the driver of the board's fan controller (sensors-detect names it), or read the board controller"
    return _built(settings, FANS, fan_table, "no fan", how_to_get)


def board_temperatures(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of processor, memory, drive and board temperatures."""
    how_to_get = "load coretemp or k10temp, and the driver of the board's monitor (sensors-detect names it)"
    survey = partial(temperature_table, node=settings.node)
    return _built(settings, TEMPERATURES, survey, "no temperature of processors, memory or board", how_to_get)


def gpu_pins(settings: FastSettings) -> BuiltCollector:
    """Build the collector of the pins of GPUs' power connectors."""
    devices = pin_devices(settings.sysfs_root)
    if not devices:
        return missing(
            GPU_PINS,
            f"no monitor of a 12V-2x6 connector under {settings.sysfs_root}/class/hwmon",
            "a ROG Astral card with the driver astral-hwmon, or a WireView Pro II with wireview-hwmon",
        )
    if settings.reader is None:
        why = f"{devices[0].chip} found, but {settings.why_no_reader}"
        return missing(GPU_PINS, why, "load the driver of its GPU")
    found = assigned(devices, settings.reader.gpus(), wireview_gpu=settings.wireview_gpu)
    if not found.monitors:
        return missing(GPU_PINS, "; ".join(found.problems), "name the GPU of a WireView with sources.wireview_gpu")
    text = ", ".join(f"{gpu.name} by {device.chip}" for device, gpu in found.monitors)
    collector = PinTable(found.monitors, settings.sysfs_root)
    return working(collector, "; ".join((text, *found.problems)), warnings=found.problems)


def _built(
    settings: SlowSettings, name: str, survey: Callable[[Path], Collector | None], absent: str, how_to_get: str
) -> BuiltCollector:
    if not settings.hwmon:
        return missing(name, "switched off by configuration")
    collector = survey(settings.sysfs_root)
    if collector is None:
        return missing(name, f"{absent} under {settings.sysfs_root}/class/hwmon", how_to_get)
    return working(collector, _found(collector))


def _rails_text(rails: Sequence[Rail]) -> str:
    """Return the rails of each nominal voltage and what named it: ``psu0, psu1 (12 V by label)``."""
    groups: dict[str, list[str]] = {}
    for rail in rails:
        groups.setdefault(f"{rail.rail_class.name} by {rail.nominal_from}", []).append(rail.key)
    return ", ".join(f"{', '.join(keys)} ({named})" for named, keys in groups.items())


def _found(collector: Collector) -> str:
    return ", ".join(entity.key for entity in collector.spec.entities)
