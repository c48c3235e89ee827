"""Extraction of measuring points and values from Redfish resources: schemas of DMTF DSP0268 (Sensor, Power, ...).

A member that is missing, null, or text where a number belongs is NaN; the last is counted.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.collectors.bmc import naming
from agent.collectors.bmc.point import Place, Point, Quantity, SupplyBit
from agent.collectors.bmc.redfish_client import Resource, child, children, link, text_field
from telemetry.controller_names import slug

# ReadingUnits (UCUM, and what older services write) by quantity and factor.
_UNITS: Mapping[str, tuple[Quantity, float]] = {
    "V": (Quantity.VOLTAGE, 1.0),
    "mV": (Quantity.VOLTAGE, 1e-3),
    "A": (Quantity.CURRENT, 1.0),
    "mA": (Quantity.CURRENT, 1e-3),
    "W": (Quantity.POWER, 1.0),
    "kW": (Quantity.POWER, 1e3),
    "Cel": (Quantity.TEMPERATURE, 1.0),
    "C": (Quantity.TEMPERATURE, 1.0),
    "{rev}/min": (Quantity.FAN_SPEED, 1.0),
    "RPM": (Quantity.FAN_SPEED, 1.0),
    "%": (Quantity.FAN_DUTY, 0.01),
    "Percent": (Quantity.FAN_DUTY, 0.01),
}
# PhysicalContext, schema PhysicalContext.
_PLACES = {
    "Intake": Place.INLET,
    "Exhaust": Place.OUTLET,
    "PowerSupply": Place.SUPPLY,
    "Fan": Place.FAN,
    "GPU": Place.GPU,
    "GPUSubsystem": Place.GPU,
    "Accelerator": Place.GPU,
}
# Thresholds of a Sensor, and of a member of Power and Thermal, the one nearest to the normal value first. The range of
# the sensor itself, `ReadingRangeMin` and `ReadingRangeMax`, bounds no rail.
_LOWER = ("LowerCaution", "LowerCritical", "LowerFatal")
_UPPER = ("UpperCaution", "UpperCritical", "UpperFatal")
_MEMBER_LIMITS = tuple(
    tuple(f"{side}Threshold{level}" for level in ("NonCritical", "Critical", "Fatal")) for side in ("Lower", "Upper")
)
_PRESENT = SupplyBit.PRESENT
_HEALTH = {"Warning": SupplyBit.FAILURE_PREDICTED, "Critical": SupplyBit.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedfishReading:
    """A point with its value and, where the service reports it, its time (seconds of the service's clock)."""

    point: Point
    value: float
    measured_s: float | None = None


Extract = Callable[[Resource], Iterator[RedfishReading]]


class OddValues:
    """Counter of values that are neither a number nor absent.

    `count` is their number so far, `example` the newest one, for the log line.
    """

    def __init__(self) -> None:
        self.count = 0
        self.example = ""

    def number(self, resource: Resource, name: str) -> float:
        """Return a number of a resource; NaN where it is missing, null, or no number."""
        value = resource.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        if value is not None:
            self.count += 1
            self.example = f"{link(resource) or text_field(resource, 'Name')}: {name} is {str(value)[:40]!r}"
        return math.nan


class Extractor:
    """Extracts points and values from resources, one method for each kind of resource."""

    def __init__(self, odd: OddValues) -> None:
        self._odd = odd

    def sensor(self, sensor: Resource) -> Iterator[RedfishReading]:
        """Yield the reading of a Sensor."""
        name, path = text_field(sensor, "Name"), link(sensor)
        unit = _UNITS.get(text_field(sensor, "ReadingUnits"))
        if path is None or unit is None or text_field(child(sensor, "Status"), "State") == "Absent":
            return
        quantity, factor = unit
        place = _PLACES.get(text_field(sensor, "PhysicalContext")) or naming.place_of(name, quantity)
        if quantity is Quantity.FAN_SPEED:
            place = Place.FAN
        if quantity is Quantity.FAN_DUTY and place is not Place.FAN:
            return
        side = text_field(sensor, "PhysicalSubContext")
        yield RedfishReading(
            point=Point(
                key=path,
                name=name,
                quantity=quantity,
                place=place,
                unit=_unit(name, place),
                is_input=place is Place.SUPPLY and (side == "Input" or (side != "Output" and naming.is_input(name))),
                limits=self._thresholds(child(sensor, "Thresholds"), factor),
            ),
            value=factor * self._odd.number(sensor, "Reading"),
            measured_s=seconds_of(text_field(sensor, "ReadingTime")),
        )

    def sensors(self, collection: Resource) -> Iterator[RedfishReading]:
        """Yield the readings of a collection of Sensors whose members are expanded."""
        for member in children(collection, "Members"):
            yield from self.sensor(member)

    def power(self, power: Resource, *, is_node: bool = True) -> Iterator[RedfishReading]:
        """Yield the readings of a Power resource, deprecated and still the most common one.

        `is_node` is True where the chassis is a whole node, and its power the node's.
        """
        path = link(power) or "power"
        for control in children(power, "PowerControl")[: int(is_node)]:
            point = Point(key=f"{path}#node", name="Node power", quantity=Quantity.POWER, place=Place.BOARD)
            yield RedfishReading(point=point, value=self._odd.number(control, "PowerConsumedWatts"))
        for key, name, rail in _named(power, "Voltages"):
            yield self._member(rail, f"{path}#{key}", name, Quantity.VOLTAGE, "ReadingVolts")
        for index, supply in enumerate(children(power, "PowerSupplies")):
            yield from self.supply(supply, index=index)

    def thermal(self, thermal: Resource) -> Iterator[RedfishReading]:
        """Yield the readings of a Thermal resource."""
        path = link(thermal) or "thermal"
        for key, name, sensor in _named(thermal, "Temperatures"):
            yield self._member(sensor, f"{path}#{key}", name, Quantity.TEMPERATURE, "ReadingCelsius")
        for key, name, fan in _named(thermal, "Fans"):
            quantity, factor = _UNITS.get(text_field(fan, "ReadingUnits"), (Quantity.FAN_SPEED, 1.0))
            point = Point(
                key=f"{path}#{key}", name=name, quantity=quantity, place=Place.FAN, unit=naming.fan_unit(name)
            )
            yield RedfishReading(point=point, value=factor * self._odd.number(fan, "Reading"))

    def supply(self, supply: Resource, *, index: int = 0) -> Iterator[RedfishReading]:
        """Yield the state of a PowerSupply, and the readings that older services have in the same resource."""
        unit = supply_unit(supply, index)
        # Keyed by name, since a supply's index in the list changes when another one is pulled.
        key = f"{(link(supply) or 'supply').partition('#')[0]}#{unit}"
        numbers = (
            ("LineInputVoltage", Quantity.VOLTAGE, True),
            ("PowerInputWatts", Quantity.POWER, True),
            ("PowerOutputWatts", Quantity.POWER, False),
        )
        for name, quantity, is_input in numbers:
            if name in supply:
                yield RedfishReading(
                    point=_of_supply(f"{key}.{name}", unit, quantity, is_input=is_input),
                    value=self._odd.number(supply, name),
                )
        yield RedfishReading(point=_of_supply(f"{key}.State", unit, Quantity.SUPPLY_STATE), value=_state(supply))

    def supply_metrics(self, metrics: Resource, *, unit: str) -> Iterator[RedfishReading]:
        """Yield the readings of a PowerSupplyMetrics resource, whose members are excerpts of sensors."""
        path = link(metrics) or unit
        excerpts = (
            ("InputVoltage", Quantity.VOLTAGE, True),
            ("InputCurrentAmps", Quantity.CURRENT, True),
            ("InputPowerWatts", Quantity.POWER, True),
            ("OutputPowerWatts", Quantity.POWER, False),
            ("TemperatureCelsius", Quantity.TEMPERATURE, False),
        )
        for name, quantity, is_input in excerpts:
            if name in metrics:
                yield RedfishReading(
                    point=_of_supply(f"{path}#{name}", unit, quantity, is_input=is_input),
                    value=self._odd.number(child(metrics, name), "Reading"),
                )

    def environment(self, metrics: Resource) -> Iterator[RedfishReading]:
        """Yield the power of a chassis from its EnvironmentMetrics."""
        if "PowerWatts" in metrics:
            point = Point(
                key=f"{link(metrics)}#PowerWatts", name="Node power", quantity=Quantity.POWER, place=Place.BOARD
            )
            yield RedfishReading(point=point, value=self._odd.number(child(metrics, "PowerWatts"), "Reading"))

    def _member(self, sensor: Resource, key: str, name: str, quantity: Quantity, member: str) -> RedfishReading:
        place = _PLACES.get(text_field(sensor, "PhysicalContext")) or naming.place_of(name, quantity)
        is_input = place is Place.SUPPLY and naming.is_input(name)
        low, high = (self._first(sensor, names) for names in _MEMBER_LIMITS)
        point = Point(
            key=key,
            name=name,
            quantity=quantity,
            place=place,
            unit=_unit(name, place),
            is_input=is_input,
            limits=(low, high) if low < high else None,
        )
        return RedfishReading(point=point, value=self._odd.number(sensor, member))

    def _thresholds(self, thresholds: Resource, factor: float) -> tuple[float, float] | None:
        readings = {name: self._odd.number(child(thresholds, name), "Reading") for name in (*_LOWER, *_UPPER)}
        low, high = (
            factor * next((value for name in names if not math.isnan(value := readings[name])), math.nan)
            for names in (_LOWER, _UPPER)
        )
        return (low, high) if low < high else None

    def _first(self, resource: Resource, names: tuple[str, ...]) -> float:
        """Return the first of several numbers that a resource has; NaN where it has none."""
        return next((value for name in names if not math.isnan(value := self._odd.number(resource, name))), math.nan)


def _named(resource: Resource, member: str) -> Iterator[tuple[str, str, Resource]]:
    """Yield key, name and object of each in a list; the key is its name, since indexes change with the list."""
    names: dict[str, int] = {}
    for index, item in enumerate(children(resource, member)):
        name = text_field(item, "Name") or text_field(item, "FanName") or f"{member.lower().removesuffix('s')}{index}"
        names[name] = names.get(name, 0) + 1
        yield f"{member}.{name}.{names[name]}", name, item


def supply_unit(supply: Resource, index: int) -> str:
    """Return the supply of a PowerSupply: by its name, else by its index in the list."""
    number = text_field(supply, "MemberId") or text_field(supply, "Id") or index
    return naming.supply_unit(text_field(supply, "Name")) or f"psu{number}".lower()


def seconds_of(text: str) -> float | None:
    """Parse a time in ISO 8601 as seconds; None where it is malformed. Without a zone it counts as UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def _of_supply(key: str, unit: str, quantity: Quantity, *, is_input: bool = False) -> Point:
    return Point(key=key, name=unit, quantity=quantity, place=Place.SUPPLY, unit=unit, is_input=is_input)


def _unit(name: str, place: Place) -> str:
    if place is Place.SUPPLY:
        return naming.supply_unit(name) or slug(name)
    return naming.fan_unit(name) if place is Place.FAN else ""


def _state(supply: Resource) -> float:
    """Return the state as the bits of `SupplyBit`; NaN where the service reports none."""
    status = child(supply, "Status")
    state, health = text_field(status, "State"), text_field(status, "Health")
    if not state and not health:
        return math.nan
    if state == "Absent":
        return 0.0
    bits = _PRESENT | _HEALTH.get(health, SupplyBit(0))
    if state == "UnavailableOffline":
        bits |= SupplyBit.FAILED
    if text_field(supply, "LineInputStatus") == "LossOfInput":
        bits |= SupplyBit.INPUT_LOST
    return float(bits)
