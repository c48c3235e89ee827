"""Values of common PDUs: their object identifiers, signals and units, and when they are invalid.

Sources: PowerNet-MIB (Schneider Electric, rPDU2 branch), PDU2-MIB (Raritan, 2017-11-13; also Server Technology's newer
parts), EATON-EPDU-MIB (Eaton), ENTITY-SENSOR-MIB (RFC 3433) with names of ENTITY-MIB (RFC 6933).
"""

import math
from dataclasses import dataclass

Oid = tuple[int, ...]
# The value of one object: a number, a text, or None where the agent has no such object.
SnmpValue = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PduChannel:
    """A signal of one part of a PDU.

    Parameters
    ----------
    part
        Unique within the PDU: ``phase-1``, ``outlet-1-7``.
    label
        Name that an administrator gave to that part; empty where there is none.
    factor
        Multiplied with the value it is the signal in its unit.
    negative_is_absent
        True where the MIB defines a negative value as "not supported".
    status, bad_statuses
        The object with the status of the value, and the statuses that make it invalid; None for no object.
    """

    part: str
    signal: str
    oid: Oid
    factor: float
    label: str = ""
    negative_is_absent: bool = False
    status: Oid | None = None
    bad_statuses: frozenset[int] = frozenset()

    def value(self, reading: SnmpValue, status: SnmpValue) -> float:
        """Return the signal in its unit, NaN where it is absent or invalid.

        ValueError where the agent returned a text where a number is expected.
        """
        if isinstance(status, int) and status in self.bad_statuses:
            return float("nan")
        if reading is None:
            return float("nan")
        number = float(reading)
        if not math.isfinite(number):
            raise ValueError(f"{reading!r} is not a number")
        if self.negative_is_absent and number < 0:
            return float("nan")
        return number * self.factor


def parse_oid(text: str) -> Oid:
    """Parse ``1.3.6.1`` or ``.1.3.6.1``; ValueError where it is no object identifier."""
    parts = text.strip().removeprefix(".").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is not an object identifier such as 1.3.6.1.4.1.318.1.1.26.6.3.1.6.1")
    return tuple(int(part) for part in parts)


VOLTAGE, CURRENT, POWER = "mains_voltage_v", "mains_current_a", "mains_power_w"
ENERGY, FREQUENCY = "mains_energy_j", "mains_frequency_hz"
PDU_SIGNALS = (VOLTAGE, CURRENT, POWER, ENERGY, FREQUENCY)

_WH_J = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MibColumn:
    """A column of a table whose rows are parts of a PDU; `factor` converts its values to the signal's unit."""

    part: str
    signal: str
    oid: Oid
    factor: float
    names: Oid | None = None


def _column(part: str, signal: str, oid: str, factor: float, names: str = "") -> MibColumn:
    return MibColumn(
        part=part, signal=signal, oid=parse_oid(oid), factor=factor, names=parse_oid(names) if names else None
    )


_APC = "1.3.6.1.4.1.318.1.1.26"
_APC_OUTLET_NAMES = f"{_APC}.9.4.3.1.3"
# PowerNet-MIB: current in tenths of amperes, voltage in volts, power of phase and device in hundredths of kilowatts,
# of an outlet in watts, energy in tenths of kilowatt-hours; -1 where the model does not measure it.
APC_RPDU2 = (
    _column("unit", POWER, f"{_APC}.4.3.1.5", 10.0),
    _column("unit", ENERGY, f"{_APC}.4.3.1.9", 100 * _WH_J),
    _column("phase", CURRENT, f"{_APC}.6.3.1.5", 0.1),
    _column("phase", VOLTAGE, f"{_APC}.6.3.1.6", 1.0),
    _column("phase", POWER, f"{_APC}.6.3.1.7", 10.0),
    _column("outlet", CURRENT, f"{_APC}.9.4.3.1.6", 0.1, _APC_OUTLET_NAMES),
    _column("outlet", POWER, f"{_APC}.9.4.3.1.7", 1.0, _APC_OUTLET_NAMES),
    _column("outlet", ENERGY, f"{_APC}.9.4.3.1.11", 100 * _WH_J, _APC_OUTLET_NAMES),
)

_EATON = "1.3.6.1.4.1.534.6.6.7"
_EATON_OUTLET_NAMES = f"{_EATON}.6.1.1.3"
# EATON-EPDU-MIB: tenths of hertz, millivolts, milliamperes, watts, watt-hours; negative where it is not available.
EATON_EPDU = (
    _column("inlet", FREQUENCY, f"{_EATON}.3.1.1.3", 0.1),
    _column("inlet", POWER, f"{_EATON}.3.5.1.4", 1.0),
    _column("inlet", ENERGY, f"{_EATON}.3.5.1.5", _WH_J),
    _column("phase", VOLTAGE, f"{_EATON}.3.2.1.3", 1e-3),
    _column("phase", CURRENT, f"{_EATON}.3.3.1.4", 1e-3),
    _column("phase", POWER, f"{_EATON}.3.4.1.4", 1.0),
    _column("phase", ENERGY, f"{_EATON}.3.4.1.5", _WH_J),
    _column("outlet", VOLTAGE, f"{_EATON}.6.3.1.2", 1e-3, _EATON_OUTLET_NAMES),
    _column("outlet", CURRENT, f"{_EATON}.6.4.1.3", 1e-3, _EATON_OUTLET_NAMES),
    _column("outlet", POWER, f"{_EATON}.6.5.1.3", 1.0, _EATON_OUTLET_NAMES),
    _column("outlet", ENERGY, f"{_EATON}.6.5.1.4", _WH_J, _EATON_OUTLET_NAMES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorTable:
    """A table of PDU2-MIB with a row for each sensor: index PDU, part, type of sensor."""

    part: str
    values: Oid
    statuses: Oid
    decimals: Oid
    names: Oid


_RARITAN = "1.3.6.1.4.1.13742.6"
RARITAN_PDU2 = (
    SensorTable(
        part="inlet",
        values=parse_oid(f"{_RARITAN}.5.2.3.1.4"),
        statuses=parse_oid(f"{_RARITAN}.5.2.3.1.3"),
        decimals=parse_oid(f"{_RARITAN}.3.3.4.1.7"),
        names=parse_oid(f"{_RARITAN}.3.3.3.1.3"),
    ),
    SensorTable(
        part="outlet",
        values=parse_oid(f"{_RARITAN}.5.4.3.1.4"),
        statuses=parse_oid(f"{_RARITAN}.5.4.3.1.3"),
        decimals=parse_oid(f"{_RARITAN}.3.5.4.1.7"),
        names=parse_oid(f"{_RARITAN}.3.5.3.1.3"),
    ),
)
# PDU2-MIB, SensorTypeEnumeration, with its base unit over ours: rmsCurrent(1), rmsVoltage(4), activePower(5),
# activeEnergy(8) in watt-hours, frequency(23).
RARITAN_TYPES = {1: (CURRENT, 1.0), 4: (VOLTAGE, 1.0), 5: (POWER, 1.0), 8: (ENERGY, _WH_J), 23: (FREQUENCY, 1.0)}
# PDU2-MIB, SensorStateEnumeration: unavailable.
RARITAN_BAD = frozenset({-1})

_ENTITY = "1.3.6.1.2.1.99.1.1.1"
ENTITY_TYPE, ENTITY_SCALE = parse_oid(f"{_ENTITY}.1"), parse_oid(f"{_ENTITY}.2")
ENTITY_PRECISION, ENTITY_VALUE = parse_oid(f"{_ENTITY}.3"), parse_oid(f"{_ENTITY}.4")
ENTITY_STATUS = parse_oid(f"{_ENTITY}.5")
ENTITY_NAME = parse_oid("1.3.6.1.2.1.47.1.1.1.1.7")
# RFC 3433, EntitySensorDataType: voltsAC(3), amperes(5), watts(6), hertz(7).
ENTITY_TYPES = {3: VOLTAGE, 5: CURRENT, 6: POWER, 7: FREQUENCY}
# RFC 3433, EntitySensorDataScale: units(9), a thousand a step.
ENTITY_UNITS_SCALE = 9
# RFC 3433, EntitySensorStatus: unavailable(2), nonoperational(3).
ENTITY_BAD = frozenset({2, 3})
