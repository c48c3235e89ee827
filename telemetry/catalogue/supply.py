"""Signals of a supply: at the load, of the supply itself, at its joint."""

from telemetry.catalogue.signal import BY_UNIT, RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G, _F = SignalKind.GAUGE, SignalKind.FLAGS

_SUPPLY = declare(
    EntityKind.SUPPLY,
    Source.HWMON,
    RateClass.FAST,
    (
        ("voltage_v", "V", _G, 3, "Voltage of the rail at the sensor, at best at the load's end."),
        ("current_a", "A", _G, 3, "Current through the sensor's shunt, from the same conversion as the voltage."),
        ("voltage_min_v", "V", _G, 3, "Lowest voltage read since the sample before, at the sensor's own pace."),
        ("current_max_a", "A", _G, 3, "Highest current read since the sample before, at the sensor's own pace."),
        ("rail_voltage_v", "V", _G, 3, "Voltage of a rail as the board's controller measures it."),
        ("rail_current_a", "A", _G, 3, "Current of a rail as the board's controller measures it."),
        (
            "rail_voltage_min_v",
            "V",
            _G,
            3,
            "Lowest voltage of a rail that is not 12 V, in recordings of earlier versions.",
        ),
        (
            "rail_current_max_a",
            "A",
            _G,
            3,
            "Highest current of a rail that is not 12 V, in recordings of earlier versions.",
        ),
    ),
    ranges=BY_UNIT,
)
_SUPPLY_OWN = declare(
    EntityKind.SUPPLY,
    Source.PMBUS,
    RateClass.SLOW,
    (
        ("input_voltage_v", "V", _G, 2, "Mains voltage at the supply's input, as reported by the supply."),
        ("power_w", "W", _G, 1, "Power that the supply delivers, as reported by the supply."),
        ("input_current_a", "A", _G, 3, "Current at the supply's input, as reported by the supply."),
        ("input_power_w", "W", _G, 1, "Power that the supply takes in, as reported by the supply."),
        ("output_voltage_v", "V", _G, 3, "Voltage at the supply's main output, as reported by the supply."),
        ("output_current_a", "A", _G, 3, "Current of the supply's main output, as reported by the supply."),
        ("supply_temp_c", "°C", _G, 1, "Hottest temperature inside the supply."),
        ("fan_rpm", "rpm", _G, 0, "Speed of the slowest fan inside the supply."),
        (
            "supply_alarms",
            "",
            _F,
            0,
            "Alarms of a supply as a bit mask: 1 input, 2 output voltage, 4 output load, 8 heat, 16 fan.",
        ),
    ),
    ranges=BY_UNIT,
)
_SUPPLY_JOINT = declare(
    EntityKind.SUPPLY,
    Source.PROBE,
    RateClass.SLOW,
    (("joint_temp_c", "°C", _G, 2, "Temperature at the joint between the supply's cable and the bus."),),
    ranges=BY_UNIT,
)
_SUPPLY_PDU = declare(
    EntityKind.SUPPLY,
    Source.PDU,
    RateClass.RARE,
    (
        ("mains_voltage_v", "V", SignalKind.GAUGE, 2, "Voltage at a PDU's inlet, phase or outlet."),
        ("mains_current_a", "A", SignalKind.GAUGE, 3, "Current through a PDU's inlet, phase or outlet."),
        ("mains_power_w", "W", SignalKind.GAUGE, 1, "Active power through a PDU, or its inlet, phase or outlet."),
        ("mains_energy_j", "J", SignalKind.COUNTER, 0, "Energy since its meter was reset."),
        ("mains_frequency_hz", "Hz", SignalKind.GAUGE, 2, "Frequency of the mains at a PDU's inlet."),
    ),
    ranges=BY_UNIT,
)
_SUPPLY_UPS = declare(
    EntityKind.SUPPLY,
    Source.UPS,
    RateClass.RARE,
    (
        ("ups_input_voltage_v", "V", SignalKind.GAUGE, 1, "Mains voltage at a UPS's input."),
        ("ups_output_voltage_v", "V", SignalKind.GAUGE, 1, "Output voltage of a UPS."),
        ("ups_load_ratio", "ratio", SignalKind.GAUGE, 3, "Load of a UPS over its rating."),
        ("ups_power_w", "W", SignalKind.GAUGE, 1, "Active output power of a UPS."),
        ("ups_battery_ratio", "ratio", SignalKind.GAUGE, 3, "Charge of a UPS's battery."),
        ("ups_runtime_s", "s", SignalKind.GAUGE, 0, "How long a UPS's battery lasts at the load of now."),
        (
            "ups_status",
            "",
            SignalKind.FLAGS,
            0,
            "State of a UPS as a bit mask: 1 on line, 2 on battery, 4 low battery, 8 replace battery, 512 overloaded.",
        ),
    ),
    ranges=BY_UNIT,
)
_SUPPLY_BMC = declare(
    EntityKind.SUPPLY,
    Source.BMC,
    RateClass.SLOW,
    (
        (
            "supply_state",
            "",
            _F,
            0,
            "State of a supply by the board controller, by bit: 1 present, 2 failed, 4 about to fail, 8 input lost.",
        ),
    ),
    ranges=BY_UNIT,
)

SUPPLY_SIGNALS = (
    *_SUPPLY,
    *_SUPPLY_OWN,
    *_SUPPLY_JOINT,
    *_SUPPLY_PDU,
    *_SUPPLY_UPS,
    *_SUPPLY_BMC,
)
