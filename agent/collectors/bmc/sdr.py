"""Sensor data records: a controller's sensors and the conversion of their bytes, IPMI 2.0 tables 43-1 and 43-2."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from agent.collectors.bmc import naming
from agent.collectors.bmc.point import Place, Point, Quantity

HEADER_BYTES = 5
FULL, COMPACT = 0x01, 0x02
# Offset of the name's type and length byte, by record type; the name follows.
_NAME_AT = {FULL: 47, COMPACT: 31}
_THRESHOLD, _SPECIFIC = 0x01, 0x6F  # event/reading type codes, table 42-1
SUPPLY_TYPE = 0x08  # sensor type codes, table 42-3
# Unit codes, table 43-15.
_UNITS = {
    1: Quantity.TEMPERATURE,
    2: Quantity.TEMPERATURE,
    3: Quantity.TEMPERATURE,
    4: Quantity.VOLTAGE,
    5: Quantity.CURRENT,
    6: Quantity.POWER,
    18: Quantity.FAN_SPEED,
}
_FAHRENHEIT, _KELVIN = 2, 3
_FAN_TYPE = 0x04
# Entity codes, table 43-13, and those of DCMI 1.5 table 6-1 for the air inlet.
_SUPPLY_ENTITIES, _FAN_ENTITIES, _INLET_ENTITIES = (0x0A,), (0x1D, 0x1E), (0x37, 0x40)
_BCD_PLUS = "0123456789 -.:,_"
# Thresholds of a full record: bit in the mask of readable ones at byte 18, and place of the raw value; the one nearest
# to the normal value first (table 43-1, bytes 19 to 20 and 37 to 42).
_READABLE_AT = 18
_LOWER = ((0, 41), (1, 40), (2, 39))
_UPPER = ((3, 38), (4, 37), (5, 36))


class ReadingFormat(IntEnum):
    """Sign of a reading's byte: table 43-1, byte 21, bits 7:6."""

    UNSIGNED = 0
    ONES_COMPLEMENT = 1
    TWOS_COMPLEMENT = 2
    NONE = 3


def _log(value: float, base: float) -> float:
    return math.log(value, base) if value > 0.0 else math.nan


# Table 43-1, byte 24: the function applied to the linear value. 70h and up is not linear and has no function.
_LINEARIZATION: Mapping[int, Callable[[float], float]] = {
    0: lambda value: value,
    1: lambda value: _log(value, math.e),
    2: lambda value: _log(value, 10),
    3: lambda value: _log(value, 2),
    4: math.exp,
    5: lambda value: 10.0**value,
    6: lambda value: 2.0**value,
    7: lambda value: 1.0 / value if value else math.nan,
    8: lambda value: value**2,
    9: lambda value: value**3,
    10: lambda value: math.sqrt(value) if value >= 0.0 else math.nan,
    11: math.cbrt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The factors of one sensor."""

    format: ReadingFormat
    m: int
    b: int
    k1: int
    k2: int
    linearization: int = 0

    @property
    def supported(self) -> bool:
        """True if these factors define a value for a byte."""
        return self.format is not ReadingFormat.NONE and self.linearization in _LINEARIZATION

    def value(self, raw: int) -> float:
        """Return the value of a byte; NaN where the function has no value there or there is no function."""
        if not self.supported:
            return math.nan
        linear = (self.m * self._signed(raw) + self.b * 10.0**self.k1) * 10.0**self.k2
        try:
            value = _LINEARIZATION[self.linearization](linear)
        except OverflowError:
            return math.nan
        # Removes the residue of binary fractions: no sensor of a byte has more than nine digits.
        return float(f"{value:.9g}")

    def _signed(self, raw: int) -> int:
        if raw < 0x80 or self.format is ReadingFormat.UNSIGNED:
            return raw
        return raw - 0xFF if self.format is ReadingFormat.ONES_COMPLEMENT else raw - 0x100


def signed(value: int, bits: int) -> int:
    """Interpret the lowest `bits` of a number as two's complement."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorRecord:
    """A sensor as its record describes it; `conversion` is None where its reading is bits, not a number.

    `thresholds` are the raw bytes of the lower and the upper threshold nearest to the normal value, None without both.
    """

    owner: int
    lun: int
    number: int
    entity: int
    instance: int
    sensor_type: int
    reading_type: int
    unit: int
    is_percent: bool
    conversion: Conversion | None
    name: str
    thresholds: tuple[int, int] | None = None

    @property
    def key(self) -> str:
        """Unique key of the sensor within the controller."""
        return f"{self.owner:02x}.{self.lun}.{self.number:02x}"

    @property
    def quantity(self) -> Quantity | None:
        """Quantity of its reading, None where it is not collected."""
        if self.conversion is None or not self.conversion.supported or self.conversion.m == 0:
            return None
        if self.is_percent:
            return Quantity.FAN_DUTY if self.sensor_type == _FAN_TYPE else None
        return _UNITS.get(self.unit)

    def points(self) -> tuple[Point, ...]:
        """Return its measuring points, if it is collected; iLO has power and state of a supply in one sensor."""
        found = []
        if self.quantity is not None:
            place, unit = self.place(self.quantity)
            is_input = place is Place.SUPPLY and naming.is_input(self.name)
            found.append(
                Point(
                    key=self.key,
                    name=self.name,
                    quantity=self.quantity,
                    place=place,
                    unit=unit,
                    is_input=is_input,
                    limits=self._limits(),
                )
            )
        if self.sensor_type == SUPPLY_TYPE and self.reading_type == _SPECIFIC:
            place, unit = self.place()
            state = Quantity.SUPPLY_STATE
            found.append(Point(key=f"{self.key}.state", name=self.name, quantity=state, place=place, unit=unit))
        return tuple(found)

    def place(self, quantity: Quantity | None = None) -> tuple[Place, str]:
        """Return its place and its supply or fan; the name takes precedence over the entity, which is often wrong."""
        if quantity is Quantity.FAN_SPEED or self.sensor_type == _FAN_TYPE:
            return Place.FAN, naming.fan_unit(self.name)
        unit = naming.supply_unit(self.name)
        if unit or self.entity in _SUPPLY_ENTITIES:
            return Place.SUPPLY, unit or f"psu{self.instance & 0x7F}"
        if self.entity in _FAN_ENTITIES:
            return Place.FAN, naming.fan_unit(self.name)
        if self.entity in _INLET_ENTITIES:
            return Place.INLET, ""
        return naming.place_of(self.name, quantity or Quantity.TEMPERATURE), ""

    def _limits(self) -> tuple[float, float] | None:
        if self.thresholds is None:
            return None
        low, high = (self.value(raw) for raw in self.thresholds)
        return (low, high) if low < high else None

    def value(self, raw: int) -> float:
        """Return the value of a byte in the unit of the quantity; NaN where it has none."""
        if self.conversion is None:
            return float("nan")
        value = self.conversion.value(raw)
        if self.is_percent:
            return value / 100.0
        if self.unit == _FAHRENHEIT:
            return (value - 32.0) / 1.8
        return value - 273.15 if self.unit == _KELVIN else value


def parse_record(record: bytes) -> SensorRecord | None:
    """Parse a record with its header; None where it describes no sensor.

    ValueError where it is shorter than its type requires.
    """
    if len(record) < HEADER_BYTES:
        raise ValueError(f"record of {len(record)} bytes: expected at least {HEADER_BYTES}")
    kind = record[3]
    if kind not in _NAME_AT:
        return None
    at = _NAME_AT[kind]
    if len(record) <= at:
        raise ValueError(f"sensor record of type {kind} has {len(record)} bytes: expected more than {at}")
    return SensorRecord(
        owner=record[5],
        lun=record[6] & 0x03,
        number=record[7],
        entity=record[8],
        instance=record[9],
        sensor_type=record[12],
        reading_type=record[13],
        unit=record[21],
        is_percent=bool(record[20] & 0x01),
        conversion=_conversion(record) if kind == FULL else None,
        name=_name(record[at], record[at + 1 :]),
        thresholds=_thresholds(record) if kind == FULL and record[13] == _THRESHOLD else None,
    )


def _thresholds(record: bytes) -> tuple[int, int] | None:
    readable = record[_READABLE_AT]
    low = next((record[at] for bit, at in _LOWER if readable >> bit & 1), None)
    high = next((record[at] for bit, at in _UPPER if readable >> bit & 1), None)
    return None if low is None or high is None else (low, high)


def _conversion(record: bytes) -> Conversion:
    exponents = record[29]
    return Conversion(
        format=ReadingFormat(record[20] >> 6),
        linearization=record[23] & 0x7F,
        m=signed(record[24] | (record[25] & 0xC0) << 2, 10),
        b=signed(record[26] | (record[27] & 0xC0) << 2, 10),
        k2=signed(exponents >> 4, 4),
        k1=signed(exponents & 0x0F, 4),
    )


def _name(type_length: int, text: bytes) -> str:
    """Parse a name: section 43.15, type in bits 7:6, length in bits 4:0."""
    coding, body = type_length >> 6, text[: type_length & 0x1F]
    if coding == 1:
        return "".join(_BCD_PLUS[digit] for byte in body for digit in (byte >> 4, byte & 0x0F)).strip()
    if coding == 2:  # packed six bits, low ones first
        bits = int.from_bytes(body, "little")
        return "".join(chr((bits >> 6 * place & 0x3F) + 0x20) for place in range(len(body) * 8 // 6)).strip()
    return body.decode("latin-1").strip("\x00 ")
