"""Present readings and log of the controller: the one source of IPMI and Redfish."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from simulator.files.node import NodeFile
from simulator.files.sensor import SensorKind
from simulator.sensors.bmc import BmcReadings
from simulator.served.board.sensors import PRESENT, BoardSensor, board_sensors

LOG_MAX = 1000


class BoardHealth(StrEnum):
    """Health of a part, in Redfish's terms."""

    OK = "OK"
    WARNING = "Warning"
    CRITICAL = "Critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardLogEntry:
    """Line of the controller's log; `sensor` is None where it is about the whole board."""

    number: int
    time_ns: int
    health: BoardHealth
    message: str
    sensor: BoardSensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardStatus:
    """Everything as it was read at `time_ns`; `raw` has a byte or bits by a sensor's number, None for no reading."""

    time_ns: int
    powered: bool
    raw: Mapping[int, int | None]
    log: tuple[BoardLogEntry, ...]

    def value(self, sensor: BoardSensor) -> float | None:
        """Return an analog sensor's value; None where it has no reading."""
        raw = self.raw[sensor.number]
        return None if raw is None or sensor.scale is None else sensor.scale.value(raw)

    def health(self, sensor: BoardSensor) -> BoardHealth:
        """Return the health of a sensor's reading; a warning where it has no reading."""
        return health_of(sensor, self.raw[sensor.number])


class ControllerState:
    """The controller's memory. One thread writes it; `status` may be read from any.

    Attributes
    ----------
    sensors
        Every sensor, in the order of its number.
    status
        The newest moment.
    """

    def __init__(self, node: NodeFile, kind: SensorKind) -> None:
        self.sensors = board_sensors(node, kind)
        self._health = dict.fromkeys((sensor.number for sensor in self.sensors), BoardHealth.OK)
        self._log: deque[BoardLogEntry] = deque(maxlen=LOG_MAX)
        self._count = 0
        raw: dict[int, int | None] = dict.fromkeys(self._health)
        self.status = BoardStatus(time_ns=0, powered=True, raw=raw, log=())

    def show(self, readings: BmcReadings, *, time_ns: int, powered: bool) -> None:
        """Process new readings; a sensor that got worse or better writes into the log."""
        raw = {sensor.number: sensor.raw(readings) for sensor in self.sensors}
        for sensor in self.sensors:
            health = health_of(sensor, raw[sensor.number])
            if raw[sensor.number] is not None and health is not self._health[sensor.number]:
                self._health[sensor.number] = health
                self._add(health, _sentence(sensor, raw[sensor.number], health), time_ns=time_ns, sensor=sensor)
        self.status = BoardStatus(time_ns=time_ns, powered=powered, raw=raw, log=tuple(self._log))

    def log(self, health: BoardHealth, message: str, *, time_ns: int, sensor: BoardSensor | None = None) -> None:
        """Write a line into the log, about the board where no sensor is given."""
        self._add(health, message, time_ns=time_ns, sensor=sensor)
        self.status = replace(self.status, log=tuple(self._log))

    def _add(self, health: BoardHealth, message: str, *, time_ns: int, sensor: BoardSensor | None = None) -> None:
        self._count += 1
        self._log.append(
            BoardLogEntry(number=self._count, time_ns=time_ns, health=health, message=message, sensor=sensor)
        )


def health_of(sensor: BoardSensor, raw: int | None) -> BoardHealth:
    """Return the health of a reading: critical at or beyond a critical limit, a warning beyond the other.

    Limits are compared as bytes, as IPMI compares them.
    """
    if raw is None:
        return BoardHealth.WARNING
    if sensor.scale is None:
        return BoardHealth.OK if raw in (0, PRESENT) else BoardHealth.CRITICAL
    limits, scale = sensor.limits, sensor.scale

    def beyond(lower: float | None, upper: float | None) -> bool:
        below = lower is not None and raw <= (scale.raw(lower) or 0)
        return below or (upper is not None and raw >= (scale.raw(upper) or 0))

    if beyond(limits.lower_critical, limits.upper_critical):
        return BoardHealth.CRITICAL
    return BoardHealth.WARNING if beyond(limits.lower_caution, limits.upper_caution) else BoardHealth.OK


def _sentence(sensor: BoardSensor, raw: int | None, health: BoardHealth) -> str:
    if sensor.scale is None or raw is None:
        return f"{sensor.name}: {'the supply works again' if health is BoardHealth.OK else 'the supply gives nothing'}"
    states = {BoardHealth.OK: "within its limits again", BoardHealth.WARNING: "beyond its caution limit"}
    return f"{sensor.name} reads {sensor.scale.value(raw):g}: {states.get(health, 'beyond its critical limit')}"
