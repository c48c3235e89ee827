"""Signals of the 12 V pins of a GPU's power connector, measured pin by pin."""

from telemetry.catalogue.signal import BY_UNIT, RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

# 12V-2x6 and 12VHPWR: six contacts of 12 V beside six of ground (Intel 336521, ATX 3.0 design guide, table 5-7).
PIN_COUNT = 6
_NUMBERS = range(1, PIN_COUNT + 1)
PIN_VOLTAGES = tuple(f"pin{number}_voltage_v" for number in _NUMBERS)
PIN_CURRENTS = tuple(f"pin{number}_current_a" for number in _NUMBERS)
# One read of a connector.
PINS = (*PIN_VOLTAGES, *PIN_CURRENTS)

PIN_SIGNALS = declare(
    EntityKind.GPU,
    Source.HWMON,
    RateClass.SLOW,
    (
        *(
            (name, "V", SignalKind.GAUGE, 3, f"Voltage of pin {number} of the GPU's 12V-2x6 connector.")
            for number, name in zip(_NUMBERS, PIN_VOLTAGES, strict=True)
        ),
        *(
            (name, "A", SignalKind.GAUGE, 3, f"Current of that pin {number}, of the same read as its voltage.")
            for number, name in zip(_NUMBERS, PIN_CURRENTS, strict=True)
        ),
    ),
    ranges=BY_UNIT,
)
