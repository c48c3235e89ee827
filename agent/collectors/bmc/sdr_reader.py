"""Reader of a controller's sensor data records: IPMI 2.0 section 33, once, and again when they have changed."""

import logging

from agent.collectors.bmc.ipmi_port import (
    CANNOT_RETURN,
    INVALID_COMMAND,
    NOT_NOW,
    OK,
    RESERVATION_LOST,
    TOO_MUCH,
    IpmiPort,
    IpmiRequest,
    IpmiResponse,
)
from agent.collectors.bmc.sdr import HEADER_BYTES, SensorRecord, parse_record
from telemetry.errors import NotSupportedError, TransientError

logger = logging.getLogger(__name__)

_STORAGE = 0x0A
_INFO, _RESERVE, _GET = 0x20, 0x22, 0x23
_FIRST, _LAST = 0x0000, 0xFFFF
# The controller's own address, table 5-4; sensors of others would need bridged commands.
CONTROLLER = 0x20
# Controllers may refuse to return a whole record: section 33.12 leaves the maximum to them. freeipmi begins with 16
# too, since many boards support no more (ipmi-sdr-cache-create.c).
_CHUNK_BYTES = 16
# heuristic: a repository with only full records has no more; beyond that, record numbers repeat.
_MAX_RECORDS = 4096
_MAX_RESERVATIONS = 20
# heuristic: requests for the same part while the controller is busy; each takes milliseconds.
_MAX_TRIES = 5


class SdrReader:
    """The sensors of one controller.

    `left_out` counts sensors that cannot be read: behind another controller, or in a malformed record.
    """

    def __init__(self, port: IpmiPort) -> None:
        self._port = port
        self._stamp: bytes | None = None
        self._sensors: tuple[SensorRecord, ...] = ()
        self._reservation = b"\x00\x00"
        self._reservations = 0
        self._chunk_bytes = _CHUNK_BYTES
        self.left_out = 0

    def sensors(self) -> tuple[SensorRecord, ...]:
        """Return the sensors; costs one command where the repository is unchanged.

        Raises
        ------
        NotSupportedError
            The controller has no repository.
        TransientError
            It does not respond, or the repository changes faster than it can be read.
        """
        (info,) = self._port.send([IpmiRequest(function=_STORAGE, command=_INFO)])
        if info.code == INVALID_COMMAND:
            raise NotSupportedError(f"{self._port.name} has no sensor data repository")
        stamp = info.at_least(13)[5:13]  # when something was added, and when erased
        if not stamp or stamp != self._stamp:
            self._sensors = self._walk()
            self._stamp = stamp or None
        return self._sensors

    def _walk(self) -> tuple[SensorRecord, ...]:
        found: dict[str, SensorRecord] = {}
        broken = foreign = self._reservations = 0
        self._reserve()
        record_id = _FIRST
        for _ in range(_MAX_RECORDS):
            record, following = self._record(record_id)
            try:
                sensor = parse_record(record)
            except ValueError:
                sensor, broken = None, broken + 1
            if sensor is not None and (sensor.owner != CONTROLLER or sensor.lun):
                foreign += 1
            elif sensor is not None:
                found.setdefault(sensor.key, sensor)
            if following in (_LAST, record_id):
                break
            record_id = following
        self.left_out = broken + foreign
        if self.left_out:
            logger.warning(
                "%s: ignoring %d sensors behind other controllers and %d malformed records",
                self._port.name,
                foreign,
                broken,
            )
        return tuple(found.values())

    def _reserve(self) -> None:
        """Reserve the repository, without which records can only be read whole; not every repository supports it."""
        self._reservations += 1
        if self._reservations > _MAX_RESERVATIONS:
            raise TransientError(f"{self._port.name}: the sensor data repository changes while it is read")
        (response,) = self._port.send([IpmiRequest(function=_STORAGE, command=_RESERVE)])
        self._reservation = response.at_least(2)[:2] or b"\x00\x00"

    def _record(self, record_id: int) -> tuple[bytes, int]:
        """Return one record with its header, and the number of the next."""
        while True:
            head = self._part(record_id, 0, HEADER_BYTES)
            if head.code == OK:
                data = head.at_least(2 + HEADER_BYTES)
                if not data:
                    raise TransientError(f"{self._port.name}: record without a header")
                body = self._body(record_id, data[2 + HEADER_BYTES - 1])
                if body is not None:
                    return data[2 : 2 + HEADER_BYTES] + body, int.from_bytes(data[:2], "little")
            elif head.code != RESERVATION_LOST:
                raise TransientError(f"{self._port.name}: record {record_id:#06x} returned code {head.code:#04x}")
            self._reserve()

    def _body(self, record_id: int, length: int) -> bytes | None:
        """Return the bytes behind the header; None where the reservation was lost meanwhile."""
        body = b""
        while len(body) < length:
            wanted = min(self._chunk_bytes, length - len(body))
            response = self._part(record_id, HEADER_BYTES + len(body), wanted)
            if response.code == RESERVATION_LOST:
                return None
            if response.code in (CANNOT_RETURN, TOO_MUCH) and self._chunk_bytes > 1:
                self._chunk_bytes //= 2
                continue
            part = response.at_least(3)[2 : 2 + wanted]
            if not part:
                raise TransientError(f"{self._port.name}: record {record_id:#06x} returned code {response.code:#04x}")
            body += part
        return body

    def _part(self, record_id: int, offset: int, count: int) -> IpmiResponse:
        data = self._reservation + record_id.to_bytes(2, "little") + bytes([offset, count])
        for _ in range(_MAX_TRIES):
            (response,) = self._port.send([IpmiRequest(function=_STORAGE, command=_GET, data=data)])
            if response.code not in NOT_NOW:
                break
        return response
