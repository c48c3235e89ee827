"""Sensors of a node's management controller, from the node file, in 8-bit numbers; IPMI and Redfish both show these."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from simulator.files.node import NodeFile, SupplyUnit
from simulator.files.sensing import board_rails
from simulator.files.sensor import Channel, SensorKind
from simulator.sensors.bmc import BmcReadings

RAW_MAX = 255
_M_MAX, _EXPONENT_MIN = 511, -8  # ten and four signed bits
# What a supply draws for what it delivers: 80 PLUS Platinum at half load.
EFFICIENCY = 0.94
# Bits of a supply's status, IPMI 2.0 table 42-3, sensor type 08h.
PRESENT, FAILED, INPUT_LOST = 1 << 0, 1 << 1, 1 << 3
# Bit of a critical interrupt, the same table, type 13h: a fatal error on a bus.
BUS_FATAL = 1 << 10

Channels = Mapping[str, Channel]


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorScale:
    """Scale from a byte to a value; `m` fits ten signed bits, `exponent` four."""

    m: int
    exponent: int

    @property
    def step(self) -> float:
        """Return the value of one count."""
        return self.m * 10.0**self.exponent

    @property
    def digits(self) -> int:
        """Return the number of decimals of a value of this scale."""
        return max(0, -self.exponent)

    def raw(self, value: float) -> int | None:
        """Return the byte nearest to a value, held within 0 and 255; None for NaN."""
        return None if math.isnan(value) else min(RAW_MAX, max(0, round(value / self.step)))

    def value(self, raw: int) -> float:
        """Return the value of a byte, without rounding errors of binary fractions."""
        return round(raw * self.step, self.digits)


def scale_of(step: float, highest: float) -> SensorScale:
    """Return the scale whose count is worth `step`; where 255 of those do not reach `highest`, the finest that does."""
    if step > 0.0 and RAW_MAX * step >= highest:
        number = Decimal(repr(step)).normalize().as_tuple()
        m = int("".join(map(str, number.digits)))
        if m <= _M_MAX and isinstance(number.exponent, int) and number.exponent >= _EXPONENT_MIN:
            return SensorScale(m=m, exponent=number.exponent)
    return scale_up_to(highest)


def scale_up_to(highest: float) -> SensorScale:
    """Return the finest scale with two digits that reaches `highest`.

    Raises
    ------
    ValueError
        `highest` is not above zero.
    """
    if not highest > 0.0:
        raise ValueError(f"a highest value above 0, not {highest}")
    exponent = math.floor(math.log10(highest / RAW_MAX)) - 1
    return SensorScale(m=math.ceil(highest / RAW_MAX / 10.0**exponent - 1e-9), exponent=exponent)


class SensorQuantity(StrEnum):
    """Quantity of a sensor."""

    VOLTAGE = "voltage"
    CURRENT = "current"
    POWER = "power"
    TEMPERATURE = "temperature"
    FAN = "fan"
    SUPPLY_STATUS = "supply_status"
    CRITICAL_INTERRUPT = "critical_interrupt"


class SensorLocation(StrEnum):
    """Location of a sensor."""

    BOARD = "board"
    INTAKE = "intake"
    EXHAUST = "exhaust"
    SUPPLY = "supply"
    FAN = "fan"


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorLimits:
    """Warning and critical limits of a reading; None where there is none."""

    lower_caution: float | None = None
    lower_critical: float | None = None
    upper_caution: float | None = None
    upper_critical: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSensor:
    """Sensor: an analog one has a `scale`, a discrete one has bits.

    `read` takes the readings and gives the value, NaN for none; of a discrete sensor its bits. `instance` counts the
    parts of one place from 1. `number` is 0 until the whole list is known.
    """

    name: str
    kind: SensorQuantity
    place: SensorLocation
    read: Callable[[BmcReadings], float]
    scale: SensorScale | None = None
    limits: SensorLimits = SensorLimits()
    instance: int = 1
    number: int = 0

    def raw(self, readings: BmcReadings) -> int | None:
        """Return the controller's answer: a byte, or bits; None where it has no reading."""
        value = self.read(readings)
        if self.scale is not None:
            return self.scale.raw(value)
        return None if value != value else int(value)  # noqa: PLR0124 -- NaN alone differs from itself


def board_sensors(node: NodeFile, kind: SensorKind) -> tuple[BoardSensor, ...]:
    """Return the sensors of a node's controller, numbered from 1 as IPMI wants it.

    The step of a byte is that of its channel in `kind`, as long as 255 steps reach what the node can take.
    """
    channels = kind.channels
    made = [*_rails(node, channels), *_temperatures(), _node_power(node, channels)]
    for index, unit in enumerate(node.supply.units):
        made += _supply(index, unit, node, channels)
    made += [_fan(index, node, channels) for index in range(node.cooling.fans)]
    made.append(
        BoardSensor(
            name="Critical Int", kind=SensorQuantity.CRITICAL_INTERRUPT, place=SensorLocation.BOARD, read=lambda _: 0.0
        )
    )
    return tuple(replace(sensor, number=number) for number, sensor in enumerate(made, start=1))


def _scale(channels: Channels, name: str, highest: float) -> SensorScale:
    """Return the step of a byte: the channel's, as long as 255 steps reach the channel's end, or `highest`."""
    channel = channels.get(name)
    if channel is None:
        return scale_of(0.0, highest)
    return scale_of(channel.quantum, highest if channel.highest is None else min(highest, channel.highest))


def _rails(node: NodeFile, channels: Channels) -> list[BoardSensor]:
    return [_rail(place, name, node, channels) for place, name in enumerate(board_rails(node))]


def _rail(place: int, name: str, node: NodeFile, channels: Channels) -> BoardSensor:
    nominal_v = node.supply.nominal_rail_v
    highest_v = max(unit.open_circuit_v for unit in node.supply.units)
    return BoardSensor(
        name=name,
        kind=SensorQuantity.VOLTAGE,
        place=SensorLocation.BOARD,
        read=lambda now: float(now.bus_v[place]),
        scale=_scale(channels, "rail_voltage_v", 1.2 * highest_v),
        # ATX12V Power Supply Design Guide: 5 %. Assumption: twice that is critical.
        limits=SensorLimits(
            lower_caution=round(0.95 * nominal_v, 3),
            lower_critical=round(0.9 * nominal_v, 3),
            upper_caution=round(1.05 * nominal_v, 3),
            upper_critical=round(1.1 * nominal_v, 3),
        ),
    )


def _temperatures() -> list[BoardSensor]:
    degree = SensorScale(m=1, exponent=0)
    return [
        BoardSensor(
            name="Inlet Temp",
            kind=SensorQuantity.TEMPERATURE,
            place=SensorLocation.INTAKE,
            read=lambda now: now.inlet_c,
            scale=degree,
            limits=SensorLimits(upper_caution=35, upper_critical=45),  # ASHRAE TC 9.9: air of class A2 and of class A4
        ),
        BoardSensor(
            name="Outlet Temp",
            kind=SensorQuantity.TEMPERATURE,
            place=SensorLocation.EXHAUST,
            read=lambda now: now.outlet_c,
            scale=degree,
            limits=SensorLimits(upper_caution=70, upper_critical=80),  # assumption
        ),
    ]


def _node_power(node: NodeFile, channels: Channels) -> BoardSensor:
    highest_w = 1.15 * sum(unit.rated_w for unit in node.supply.units)
    return BoardSensor(
        name="Node Power",
        kind=SensorQuantity.POWER,
        place=SensorLocation.BOARD,
        read=lambda now: now.node_power_w,
        scale=_scale(channels, "node_power_w", highest_w),
    )


def _supply(index: int, unit: SupplyUnit, node: NodeFile, channels: Channels) -> list[BoardSensor]:
    tag, mains = unit.name.upper(), node.supply.input
    highest_w = 1.3 * unit.rated_w

    def output_w(now: BmcReadings) -> float:
        return float(now.psu_output_v[index] * now.psu_output_a[index])

    def status(now: BmcReadings) -> float:
        if now.psu_ok[index]:
            return PRESENT
        return PRESENT | (INPUT_LOST if now.psu_input_v[index] < mains.dropout_ratio * mains.nominal_v else FAILED)

    def analog(
        name: str, kind: SensorQuantity, read: Callable[[BmcReadings], float], highest: float, step: str
    ) -> BoardSensor:
        return BoardSensor(
            name=f"{tag} {name}",
            kind=kind,
            place=SensorLocation.SUPPLY,
            read=read,
            scale=_scale(channels, step, highest),
            limits=SensorLimits(upper_caution=unit.rated_w) if name == "Pout" else SensorLimits(),
            instance=index + 1,
        )

    amps = highest_w / unit.open_circuit_v
    return [
        analog(
            "Vin", SensorQuantity.VOLTAGE, lambda now: now.psu_input_v[index], 1.15 * mains.nominal_v, "psu_input_v"
        ),
        analog(
            "Vout",
            SensorQuantity.VOLTAGE,
            lambda now: now.psu_output_v[index],
            1.2 * unit.open_circuit_v,
            "psu_output_v",
        ),
        analog("Iout", SensorQuantity.CURRENT, lambda now: now.psu_output_a[index], amps, "psu_output_a"),
        analog("Pout", SensorQuantity.POWER, output_w, highest_w, "psu_output_w"),
        analog(
            "Pin", SensorQuantity.POWER, lambda now: output_w(now) / EFFICIENCY, highest_w / EFFICIENCY, "psu_input_w"
        ),
        BoardSensor(
            name=f"{tag} Status",
            kind=SensorQuantity.SUPPLY_STATUS,
            place=SensorLocation.SUPPLY,
            read=status,
            instance=index + 1,
        ),
    ]


def _fan(index: int, node: NodeFile, channels: Channels) -> BoardSensor:
    highest_rpm = node.cooling.max_rpm
    return BoardSensor(
        name=f"FAN{index}",
        kind=SensorQuantity.FAN,
        place=SensorLocation.FAN,
        read=lambda now: now.fan_rpm[index],
        scale=_scale(channels, "fan_rpm", 1.02 * highest_rpm),
        limits=SensorLimits(lower_critical=float(round(0.1 * highest_rpm))),  # assumption: below that it stands
        instance=index + 1,
    )
