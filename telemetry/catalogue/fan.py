"""Signals of a fan."""

from telemetry.catalogue.ranges import BY_UNIT
from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G = SignalKind.GAUGE

_FAN = declare(
    EntityKind.FAN,
    Source.BMC,
    RateClass.SLOW,
    (
        ("fan_rpm", "rpm", _G, 0, "Speed by the fan's tachometer."),
        ("fan_ratio", "ratio", _G, 3, "Duty that the fan is driven with."),
    ),
    ranges=BY_UNIT,
)

FAN_SIGNALS = (*_FAN,)
