"""Measuring points and log entries of a controller, and the port to both, over any protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Protocol

from telemetry.records import EventKind, Severity


class Quantity(StrEnum):
    """Quantity that a point measures, each in one unit: V, A, W, degC, rpm, 0..1, bits of `SupplyBit`."""

    VOLTAGE = "voltage"
    CURRENT = "current"
    POWER = "power"
    TEMPERATURE = "temperature"
    FAN_SPEED = "fan_speed"
    FAN_DUTY = "fan_duty"
    SUPPLY_STATE = "supply_state"


class SupplyBit(IntFlag):
    """State of a supply: the offsets of IPMI 2.0 table 42-3, sensor type 08h, where other protocols have them too."""

    PRESENT = 1
    FAILED = 2
    FAILURE_PREDICTED = 4
    INPUT_LOST = 8


class Place(StrEnum):
    """Place of a measuring point."""

    SUPPLY = "supply"
    FAN = "fan"
    INLET = "inlet"
    OUTLET = "outlet"
    GPU = "gpu"
    BOARD = "board"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measuring point.

    Parameters
    ----------
    key
        Unique within the controller, the same after a new connection.
    unit
        The supply or fan it belongs to, as in ``psu0``; empty elsewhere.
    is_input
        True for a supply's value on its mains side.
    limits
        Lower and upper threshold that lie nearest to the normal value; None where one of the two is missing.
    """

    key: str
    name: str
    quantity: Quantity
    place: Place
    unit: str = ""
    is_input: bool = False
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An entry of the controller's log; `unit` as for a point, `id` unique over the log's lifetime."""

    id: str
    time_ns: int
    kind: EventKind
    severity: Severity
    message: str
    place: Place = Place.BOARD
    unit: str = ""
    code: int | None = None


class BoardLink(Protocol):
    """Connection to a controller. One thread at a time; every call returns or raises within seconds.

    It raises errors of `telemetry.errors`; after one of them it is opened again.
    """

    name: str

    def open(self) -> tuple[Point, ...]:
        """Connect and return the measuring points; the same as before unless hardware changed."""
        ...

    def read(self) -> Mapping[str, float]:
        """Return the values by key of their point; NaN or missing where there is none."""
        ...

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Return the log entries since the last call, oldest first; the first call returns none."""
        ...

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        ...
