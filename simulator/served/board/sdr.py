"""Sensor data records of type 01h (full) for the controller's sensors: IPMI 2.0 table 43-1, byte for byte."""

from collections.abc import Sequence

from simulator.served.board.sensors import (
    BUS_FATAL,
    FAILED,
    INPUT_LOST,
    PRESENT,
    BoardSensor,
    SensorLocation,
    SensorQuantity,
    SensorScale,
)

OWNER = 0x20  # the controller's own address
_VERSION, _FULL_RECORD = 0x51, 0x01
_NAME_MAX = 16
# Sensor type codes, table 42-3; 0Bh is "other units-based".
TYPE_CODES = {
    SensorQuantity.TEMPERATURE: 0x01,
    SensorQuantity.VOLTAGE: 0x02,
    SensorQuantity.CURRENT: 0x03,
    SensorQuantity.FAN: 0x04,
    SensorQuantity.POWER: 0x0B,
    SensorQuantity.SUPPLY_STATUS: 0x08,
    SensorQuantity.CRITICAL_INTERRUPT: 0x13,
}
_THRESHOLD, _SPECIFIC = 0x01, 0x6F  # event/reading type codes, table 42-1
# Unit codes, table 43-15.
_UNITS = {
    SensorQuantity.TEMPERATURE: 1,
    SensorQuantity.VOLTAGE: 4,
    SensorQuantity.CURRENT: 5,
    SensorQuantity.POWER: 6,
    SensorQuantity.FAN: 18,
}
# Entity codes, table 43-13: board, air inlet, supply, fan. There is none for the air that leaves.
_ENTITIES = {
    SensorLocation.BOARD: 0x07,
    SensorLocation.EXHAUST: 0x07,
    SensorLocation.INTAKE: 0x37,
    SensorLocation.SUPPLY: 0x0A,
    SensorLocation.FAN: 0x1D,
}
_BITS = {SensorQuantity.SUPPLY_STATUS: PRESENT | FAILED | INPUT_LOST, SensorQuantity.CRITICAL_INTERRUPT: BUS_FATAL}


def reading_type(sensor: BoardSensor) -> int:
    """Return the event/reading type code of a sensor."""
    return _THRESHOLD if sensor.scale is not None else _SPECIFIC


def event_bits(sensor: BoardSensor) -> int:
    """Return the events that a sensor can log: thresholds crossed, or bits that come up."""
    if sensor.scale is None:
        return _BITS[sensor.kind]
    limits = sensor.limits
    # Table 42-2: 0 lower caution going low, 2 lower critical going low, 7 and 9 the upper ones going high.
    crossed = {0: limits.lower_caution, 2: limits.lower_critical, 7: limits.upper_caution, 9: limits.upper_critical}
    return sum(1 << bit for bit, value in crossed.items() if value is not None)


def threshold_bytes(sensor: BoardSensor) -> tuple[int, Sequence[int]]:
    """Return which thresholds there are, as bits, and all six raw values from the lowest number up.

    The numbers are those of table 43-1: 0 lower caution, 1 lower critical, 3 upper caution, 4 upper critical.
    """
    limits = sensor.limits
    values = {0: limits.lower_caution, 1: limits.lower_critical, 3: limits.upper_caution, 4: limits.upper_critical}
    scale = sensor.scale or SensorScale(m=1, exponent=0)
    present = sum(1 << number for number, value in values.items() if value is not None)
    raw = [0 if (value := values.get(number)) is None else scale.raw(value) or 0 for number in range(6)]
    return present, raw


def full_record(sensor: BoardSensor) -> bytes:
    """Return the record of a sensor; its name is cut to 16 characters."""
    name = sensor.name.encode("ascii")[:_NAME_MAX]
    body = bytes([*_key(sensor), *_kind(sensor), *_factors(sensor), *_range(sensor), 0xC0 | len(name), *name])
    return bytes([0, 0, _VERSION, _FULL_RECORD, len(body)]) + body


def _key(sensor: BoardSensor) -> list[int]:
    return [OWNER, 0, sensor.number, _ENTITIES[sensor.place], sensor.instance]


def _kind(sensor: BoardSensor) -> list[int]:
    """Return initialization, capabilities, type, reading type and the three masks."""
    analog = sensor.scale is not None
    events = event_bits(sensor)
    present, _ = threshold_bytes(sensor)
    initial = 0x7F if analog else 0x63  # scanning and events on; thresholds and hysteresis where there are any
    capable = 0x45 if analog and present else 0x41  # re-arms by itself; thresholds can be read; events per sensor
    masks = (
        [events & 0xFF, events >> 8 & 0x0F, 0, 0, present, 0]
        if analog
        else [*_two_bytes(events), 0, 0, *_two_bytes(events)]
    )
    if analog:
        masks[2:4] = masks[0:2]  # what comes up also goes down
    return [initial, capable, TYPE_CODES[sensor.kind], reading_type(sensor), *masks]


def _factors(sensor: BoardSensor) -> list[int]:
    """Return units, linearization, M with tolerance, B with accuracy, exponents."""
    if sensor.scale is None:
        return [0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0]  # no analog reading
    m, exponent = sensor.scale.m, sensor.scale.exponent
    return [0, _UNITS[sensor.kind], 0, 0, m & 0xFF, (m >> 2) & 0xC0, 0, 0, 0, (exponent & 0x0F) << 4]


def _range(sensor: BoardSensor) -> list[int]:
    """Return flags, nominal and normal readings, the sensor's range, thresholds from the top down, hysteresis, rest."""
    if sensor.scale is None:
        return [0] * 17
    _, raw = threshold_bytes(sensor)
    return [0, 0, 0, 0, 0xFF, 0, *reversed(raw), 1, 1, 0, 0, 0]


def _two_bytes(bits: int) -> list[int]:
    return [bits & 0xFF, bits >> 8 & 0xFF]
