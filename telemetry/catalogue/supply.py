"""What a supply shows: at the load's end, of itself, at its joint."""

from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G = SignalKind.GAUGE

_SUPPLY = declare(
    EntityKind.SUPPLY,
    Source.HWMON,
    RateClass.FAST,
    (
        ("voltage_v", "V", _G, 3, "Voltage at the sensor, on a 12 V rail at the load's end."),
        ("current_a", "A", _G, 3, "Current through the sensor's shunt, from the same conversion as the voltage."),
    ),
)
_SUPPLY_OWN = declare(
    EntityKind.SUPPLY,
    Source.PMBUS,
    RateClass.SLOW,
    (
        ("input_voltage_v", "V", _G, 2, "Mains voltage at the supply's input, as the supply tells it."),
        ("power_w", "W", _G, 1, "Power that the supply delivers, as the supply tells it."),
    ),
)
_SUPPLY_JOINT = declare(
    EntityKind.SUPPLY,
    Source.PROBE,
    RateClass.SLOW,
    (("joint_temp_c", "°C", _G, 2, "Temperature at the joint between the supply's cable and the bus."),),
)

SUPPLY_SIGNALS = (
    *_SUPPLY,
    *_SUPPLY_OWN,
    *_SUPPLY_JOINT,
)
