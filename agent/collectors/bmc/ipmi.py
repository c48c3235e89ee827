"""Board controller over IPMI: its sensors, the node's power by DCMI, and its event log."""

import logging
from collections import deque
from collections.abc import Mapping

from agent.collectors.bmc.ipmi_port import IpmiPort, IpmiRequest
from agent.collectors.bmc.point import LogEntry, Place, Point, Quantity, SupplyBit
from agent.collectors.bmc.sdr import SensorRecord
from agent.collectors.bmc.sdr_reader import SdrReader
from agent.collectors.bmc.sel import SelReader
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

_SENSOR, _GET_READING = 0x04, 0x2D
# Get Sensor Reading, section 35.14: byte 2 of the response.
_SCANNING, _UNAVAILABLE = 0x40, 0x20
# Table 42-3, sensor type 08h: the first four offsets are those of `SupplyBit`, the fifth is a variant of the fourth.
_SAME_BITS, _LOST_OR_OUT_OF_RANGE = 0x0F, 0x10
# Get Power Reading in the mode "system power statistics", DCMI 1.5 section 6.6.1; bit 6 of the last byte: active.
_DCMI, _GET_POWER = 0x2C, 0x02
_POWER_REQUEST = bytes([0xDC, 0x01, 0x00, 0x00])
_POWER_BYTES, _MEASURES = 18, 0x40
_NODE_POWER = Point(key="dcmi.power", name="Node power", quantity=Quantity.POWER, place=Place.BOARD)
_NAN = float("nan")
# heuristic: sensors read before the time limit is checked; assumes that no controller takes over 100 ms for one.
_BATCH = 16


class IpmiLink:
    """A `BoardLink` over IPMI.

    `round_s` is the time limit of one round over all sensors.
    """

    def __init__(self, port: IpmiPort, *, clock: Clock, round_s: float) -> None:
        self._port = port
        self._clock = clock
        self._round_s = round_s
        self._records = SdrReader(port)
        self._log = SelReader(port, clock=clock)
        self._batches: deque[tuple[tuple[SensorRecord, tuple[Point, ...]], ...]] = deque()
        self._values: dict[str, float] = {}
        self._by_number: dict[int, SensorRecord] = {}
        self._has_dcmi = False
        self.name = port.name

    def open(self) -> tuple[Point, ...]:
        """Connect and return every point that can be measured."""
        sensors = self._records.sensors()
        self._by_number = {sensor.number: sensor for sensor in sensors}
        wanted = tuple((sensor, points) for sensor in sensors if (points := sensor.points()))
        self._batches = deque(wanted[start : start + _BATCH] for start in range(0, len(wanted), _BATCH))
        self._values = {}
        self._has_dcmi = _power_w(self._port) is not None
        self._log.begin()
        return (*(point for _, points in wanted for point in points), *((_NODE_POWER,) if self._has_dcmi else ()))

    def read(self) -> Mapping[str, float]:
        """Return the values by key; NaN where the controller reports a reading as unavailable.

        Sensors that did not fit into the time limit keep their value of the previous round.
        """
        end_s = self._clock.monotonic_s() + self._round_s
        for _ in range(len(self._batches)):
            batch = self._batches[0]
            responses = self._port.send(
                [
                    IpmiRequest(function=_SENSOR, command=_GET_READING, data=bytes([sensor.number]))
                    for sensor, _ in batch
                ]
            )
            self._batches.rotate(-1)
            self._values |= {
                point.key: reading(sensor, point, response.at_least(2))
                for (sensor, points), response in zip(batch, responses, strict=True)
                for point in points
            }
            if self._clock.monotonic_s() > end_s:
                break
        if self._has_dcmi:
            power_w = _power_w(self._port)
            self._values[_NODE_POWER.key] = _NAN if power_w is None else power_w
        return dict(self._values)

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Return new log entries."""
        return self._log.new_entries(self._by_number)

    def close(self) -> None:
        """Close the connection."""
        self._port.close()


def reading(sensor: SensorRecord, point: Point, data: bytes) -> float:
    """Parse a response to Get Sensor Reading: a value or the bits of a supply's state, NaN where it has none."""
    if len(data) < 2 or data[1] & _UNAVAILABLE or not data[1] & _SCANNING:
        return _NAN
    if point.quantity is not Quantity.SUPPLY_STATE:
        return sensor.value(data[0])
    if len(data) < 3:
        return _NAN
    bits = data[2] & _SAME_BITS | (SupplyBit.INPUT_LOST if data[2] & _LOST_OR_OUT_OF_RANGE else 0)
    return float(bits)


def _power_w(port: IpmiPort) -> float | None:
    """Read the node's power; None where the controller has no DCMI or does not measure now."""
    (response,) = port.send([IpmiRequest(function=_DCMI, command=_GET_POWER, data=_POWER_REQUEST)])
    data = response.at_least(_POWER_BYTES)
    if not data or data[0] != _POWER_REQUEST[0] or not data[_POWER_BYTES - 1] & _MEASURES:
        return None
    return float(int.from_bytes(data[1:3], "little")) or None  # a running node uses more than 0 W
