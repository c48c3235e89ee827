"""A board's controller by IPMI: its sensors, the node's power by DCMI, and its event log."""

import logging
from collections.abc import Mapping, Sequence

from agent.collectors.bmc.ipmi_port import IpmiPort, Request
from agent.collectors.bmc.point import LogEntry, Place, Point, Quantity
from agent.collectors.bmc.sdr import SensorRecord
from agent.collectors.bmc.sdr_reader import SdrReader
from agent.collectors.bmc.sel_reader import SelReader
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

_SENSOR, _GET_READING = 0x04, 0x2D
# Get Sensor Reading, section 35.14: byte 2 of the answer.
_SCANNING, _UNAVAILABLE = 0x40, 0x20
# Get Power Reading in the mode "system power statistics", DCMI 1.5 section 6.6.1; bit 6 of the last byte: it measures.
_DCMI, _GET_POWER = 0x2C, 0x02
_POWER_REQUEST = bytes([0xDC, 0x01, 0x00, 0x00])
_POWER_BYTES, _MEASURES = 18, 0x40
_NODE_POWER = Point(key="dcmi.power", name="Node power", quantity=Quantity.POWER, place=Place.BOARD)
_NAN = float("nan")


class IpmiLink:
    """A `BoardLink` over IPMI."""

    def __init__(self, port: IpmiPort, *, clock: Clock) -> None:
        self._port = port
        self._records = SdrReader(port)
        self._log = SelReader(port, clock=clock)
        self._read_points: tuple[SensorRecord, ...] = ()
        self._by_number: dict[int, SensorRecord] = {}
        self._has_dcmi = False
        self.name = port.name

    def open(self) -> tuple[Point, ...]:
        """Connect and give every point that can be measured."""
        sensors = self._records.sensors()
        pairs = [(sensor, point) for sensor in sensors if (point := sensor.point()) is not None]
        self._by_number = {sensor.number: sensor for sensor in sensors}
        self._read_points = tuple(sensor for sensor, _ in pairs)
        self._has_dcmi = _power_w(self._port) is not None
        self._log.begin()
        return (*(point for _, point in pairs), *((_NODE_POWER,) if self._has_dcmi else ()))

    def read(self) -> Mapping[str, float]:
        """Give the values by key; NaN where the controller says that a reading is not available."""
        requests = [
            Request(function=_SENSOR, command=_GET_READING, data=bytes([sensor.number])) for sensor in self._read_points
        ]
        answers = self._port.ask(requests)
        values = {
            sensor.key: reading(sensor, answer.at_least(2))
            for sensor, answer in zip(self._read_points, answers, strict=True)
        }
        if self._has_dcmi:
            power_w = _power_w(self._port)
            values[_NODE_POWER.key] = _NAN if power_w is None else power_w
        return values

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Give what came into the log."""
        return self._log.new_entries(self._by_number)

    def close(self) -> None:
        """Let the connection go."""
        self._port.close()


def reading(sensor: SensorRecord, data: Sequence[int]) -> float:
    """Give the value in an answer to Get Sensor Reading; NaN where it has none, of a supply's state its bits."""
    if len(data) < 2 or data[1] & _UNAVAILABLE or not data[1] & _SCANNING:
        return _NAN
    if sensor.conversion is None:
        return float(data[2]) if len(data) > 2 else _NAN
    return sensor.value(data[0])


def _power_w(port: IpmiPort) -> float | None:
    """Give the node's power; None where the controller has no DCMI or does not measure now."""
    (answer,) = port.ask([Request(function=_DCMI, command=_GET_POWER, data=_POWER_REQUEST)])
    data = answer.at_least(_POWER_BYTES)
    if not data or data[0] != _POWER_REQUEST[0] or not data[_POWER_BYTES - 1] & _MEASURES:
        return None
    return float(int.from_bytes(data[1:3], "little"))
