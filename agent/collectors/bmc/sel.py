"""System event log of a controller: entries by IPMI 2.0 tables 32-1 (record), 42-2 and 42-3 (events), and reader."""

import logging
from dataclasses import dataclass

from agent.collectors.bmc.ipmi_port import INVALID_COMMAND, NO_PRIVILEGE, NOT_NOW, IpmiPort, IpmiRequest, IpmiResponse
from agent.collectors.bmc.point import LogEntry, Place, Quantity
from agent.collectors.bmc.sdr import SUPPLY_TYPE, SensorRecord
from agent.collectors.bmc.sdr_reader import CONTROLLER
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import RailwatchError
from telemetry.records import EventKind, Severity

logger = logging.getLogger(__name__)

RECORD_BYTES = 16
_SYSTEM_EVENT = 0x02
# Record types with a time stamp: system events, and OEM ones of C0h to DFh (section 32.1).
_OEM_STAMPED = range(0xC0, 0xE0)
# Time stamps up to here count seconds since the controller started, and FFFFFFFFh means none: section 37.1.
_STARTED_BELOW_S, _NO_STAMP = 0x20000000, 0xFFFFFFFF
_THRESHOLD, _SPECIFIC = 0x01, 0x6F

# Table 42-2, reading type 01h: text and severity of each offset.
_CROSSED = {
    0: ("below its caution limit", Severity.WARNING),
    1: ("back above its lower caution limit", Severity.INFO),
    2: ("below its critical limit", Severity.CRITICAL),
    3: ("back above its lower critical limit", Severity.INFO),
    4: ("below its non-recoverable limit", Severity.CRITICAL),
    5: ("back above its lower non-recoverable limit", Severity.INFO),
    6: ("back below its upper caution limit", Severity.INFO),
    7: ("above its caution limit", Severity.WARNING),
    8: ("back below its upper critical limit", Severity.INFO),
    9: ("above its critical limit", Severity.CRITICAL),
    10: ("back below its upper non-recoverable limit", Severity.INFO),
    11: ("above its non-recoverable limit", Severity.CRITICAL),
}
# Table 42-2, the other reading types with a severity or a presence.
_GENERIC_TEXTS = {
    _THRESHOLD: _CROSSED,
    0x03: {0: ("state not set", Severity.INFO), 1: ("state set", Severity.INFO)},
    0x04: {0: ("failure no longer predicted", Severity.INFO), 1: ("failure predicted", Severity.WARNING)},
    0x05: {0: ("within its limit", Severity.INFO), 1: ("beyond its limit", Severity.WARNING)},
    0x07: {
        0: ("OK", Severity.INFO),
        1: ("non-critical", Severity.WARNING),
        2: ("critical", Severity.CRITICAL),
        3: ("non-recoverable", Severity.CRITICAL),
        4: ("non-critical, from more severe", Severity.WARNING),
        5: ("critical, from non-recoverable", Severity.CRITICAL),
        6: ("non-recoverable", Severity.CRITICAL),
    },
    0x08: {0: ("absent", Severity.INFO), 1: ("present", Severity.INFO)},
    0x0B: {
        0: ("fully redundant", Severity.INFO),
        1: ("redundancy lost", Severity.CRITICAL),
        2: ("redundancy degraded", Severity.WARNING),
        3: ("not redundant, sufficient resources", Severity.WARNING),
        4: ("not redundant, sufficient resources", Severity.WARNING),
        5: ("not redundant, insufficient resources", Severity.CRITICAL),
        6: ("redundancy degraded", Severity.WARNING),
        7: ("redundancy degraded", Severity.WARNING),
    },
}
# Table 42-3 by sensor type: those of power, heat and the bus.
_INTERRUPT_TYPE, _LOG_TYPE, _POWER_UNIT_TYPE, _PROCESSOR_TYPE = 0x13, 0x10, 0x09, 0x07
_SPECIFIC_TEXTS = {
    _PROCESSOR_TYPE: {
        0: ("internal error", Severity.CRITICAL),
        1: ("thermal shutdown", Severity.CRITICAL),
        10: ("throttled", Severity.WARNING),
    },
    SUPPLY_TYPE: {
        0: ("present", Severity.INFO),
        1: ("failed", Severity.CRITICAL),
        2: ("failure predicted", Severity.WARNING),
        3: ("input lost (AC or DC)", Severity.CRITICAL),
        4: ("input lost or out of range", Severity.CRITICAL),
        5: ("input out of range", Severity.WARNING),
        6: ("configuration error", Severity.WARNING),
        7: ("inactive, in standby", Severity.INFO),
    },
    _POWER_UNIT_TYPE: {
        0: ("power off", Severity.WARNING),
        1: ("power cycle", Severity.WARNING),
        3: ("interlock power down", Severity.CRITICAL),
        4: ("input power lost", Severity.CRITICAL),
        5: ("soft power control failed", Severity.WARNING),
        6: ("power unit failed", Severity.CRITICAL),
        7: ("failure predicted", Severity.WARNING),
    },
    _LOG_TYPE: {
        0: ("logging of corrected memory errors is off", Severity.INFO),
        2: ("log was cleared", Severity.INFO),
        4: ("log is full", Severity.WARNING),
        5: ("log is almost full", Severity.WARNING),
    },
    _INTERRUPT_TYPE: {
        0: ("front panel interrupt", Severity.WARNING),
        1: ("bus timeout", Severity.CRITICAL),
        2: ("I/O channel check", Severity.WARNING),
        3: ("software interrupt", Severity.WARNING),
        4: ("PCI parity error", Severity.CRITICAL),
        5: ("PCI system error", Severity.CRITICAL),
        7: ("bus error corrected", Severity.WARNING),
        8: ("bus error uncorrected", Severity.CRITICAL),
        9: ("fatal interrupt", Severity.CRITICAL),
        10: ("bus fatal error", Severity.CRITICAL),
        11: ("bus degraded", Severity.WARNING),
    },
}
_TYPE_NAMES = {
    0x01: "temperature",
    0x02: "voltage",
    0x03: "current",
    0x04: "fan",
    _PROCESSOR_TYPE: "processor",
    SUPPLY_TYPE: "power supply",
    _POWER_UNIT_TYPE: "power unit",
    0x0C: "memory",
    _LOG_TYPE: "event log",
    _INTERRUPT_TYPE: "critical interrupt",
}
_KINDS = {
    0x01: EventKind.BOARD_HEAT,
    0x02: EventKind.SUPPLY,
    0x03: EventKind.SUPPLY,
    0x04: EventKind.FAN,
    SUPPLY_TYPE: EventKind.SUPPLY,
    _POWER_UNIT_TYPE: EventKind.SUPPLY,
}

_STORAGE = 0x0A
_GET_ENTRY, _GET_TIME = 0x43, 0x48
_FIRST, _LAST = 0x0000, 0xFFFF
# heuristic: entries per call; the next call reads on, so that a log of thousands delays no other source.
_MAX_ENTRIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SelClock:
    """The controller's clock: at our time `ours_ns` it showed `its_s`, None where it shows none."""

    ours_ns: int
    its_s: int | None

    def time_ns(self, stamp_s: int) -> int:
        """Convert one of its time stamps to our time, never later than now; now where the stamp has no meaning."""
        if self.its_s is None or stamp_s == _NO_STAMP:
            return self.ours_ns
        # Valid if both count from the same origin: the controller's start where its clock was never set, else 1970.
        if (stamp_s <= _STARTED_BELOW_S) is not (self.its_s <= _STARTED_BELOW_S):
            return self.ours_ns
        return self.ours_ns - max(0, self.its_s - stamp_s) * NS_PER_S


def parse_entry(record: bytes, sensor: SensorRecord | None, clock: SelClock) -> LogEntry:
    """Parse a record of the log; `sensor` is the sensor it names, None where that is not known.

    ValueError where it does not have 16 bytes.
    """
    if len(record) != RECORD_BYTES:
        raise ValueError(f"log record of {len(record)} bytes: expected {RECORD_BYTES}")
    number, kind = int.from_bytes(record[:2], "little"), record[2]
    stamp_s = int.from_bytes(record[3:7], "little")
    has_stamp = kind == _SYSTEM_EVENT or kind in _OEM_STAMPED
    time_ns = clock.time_ns(stamp_s) if has_stamp else clock.ours_ns
    identity = f"{number}-{record[3:].hex()}"
    if kind != _SYSTEM_EVENT:
        return LogEntry(
            id=identity,
            time_ns=time_ns,
            kind=EventKind.BOARD,
            severity=Severity.INFO,
            message=f"OEM record of type {kind:#04x} in the controller's log: {record[3:].hex(' ')}",
        )
    sensor_type, reading_type, is_over = record[10], record[12] & 0x7F, bool(record[12] & 0x80)
    offset = record[13] & 0x0F
    text, severity = _meaning(sensor_type, reading_type, offset)
    place, unit = (
        (Place.BOARD, "") if sensor is None else sensor.place(Quantity.FAN_SPEED if sensor_type == 4 else None)
    )
    name = sensor.name if sensor is not None else f"{_TYPE_NAMES.get(sensor_type, 'sensor')} {record[11]:#04x}"
    return LogEntry(
        id=identity,
        time_ns=time_ns,
        kind=_KINDS.get(sensor_type, EventKind.BOARD),
        severity=_severity(sensor_type, offset, severity, is_over=is_over),
        message=f"{name}: {'no longer ' if is_over else ''}{text}{_reading(record, sensor)}",
        place=place,
        unit=unit,
        code=sensor_type << 8 | offset,
    )


def _meaning(sensor_type: int, reading_type: int, offset: int) -> tuple[str, Severity]:
    unknown = (f"event {offset} of type {reading_type:#04x}", Severity.INFO)
    table = _SPECIFIC_TEXTS.get(sensor_type) if reading_type == _SPECIFIC else _GENERIC_TEXTS.get(reading_type)
    return unknown if table is None else table.get(offset, unknown)


def _severity(sensor_type: int, offset: int, severity: Severity, *, is_over: bool) -> Severity:
    """Return the severity: info for an event that is over, except for a supply that is no longer present."""
    if not is_over:
        return severity
    return Severity.WARNING if (sensor_type, offset) == (SUPPLY_TYPE, 0) else Severity.INFO


def _reading(record: bytes, sensor: SensorRecord | None) -> str:
    """Return the reading that crossed a threshold where the record has it: section 29.7, event data 1 bits 7:4."""
    if record[12] & 0x7F != _THRESHOLD or sensor is None or sensor.conversion is None:
        return ""
    flags = record[13] >> 4
    parts = []
    if flags >> 2 == 1:
        parts.append(f"{sensor.value(record[14]):g}")
    if flags & 0x03 == 1:
        parts.append(f"limit {sensor.value(record[15]):g}")
    return f" ({', '.join(parts)})" if parts else ""


class SelReader:
    """The log of one controller.

    The newest record is kept with its bytes. While the log still has it, its successors are new. Otherwise the log was
    cleared or has overwritten it, and every record in it is new: a record is reported twice only if a full log is
    overwritten between two polls. A busy controller is queried again.
    """

    def __init__(self, port: IpmiPort, *, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._started = False
        self._newest_id = _FIRST
        self._newest = b""
        self._supported = True

    def begin(self) -> None:
        """Find the end of the log, once; FFFFh names the newest record (section 31.6.1), and an empty log has none."""
        if self._started:
            return
        response = self._request(_LAST)
        if response.code in NOT_NOW:
            return
        record = response.at_least(2 + RECORD_BYTES)[2 : 2 + RECORD_BYTES]
        if record:
            self._newest_id, self._newest = int.from_bytes(record[:2], "little"), record
        elif response.code in (INVALID_COMMAND, NO_PRIVILEGE):
            self._supported = False
            logger.warning("%s: cannot read event log (code %#04x)", self._port.name, response.code)
        self._started = True

    def new_entries(self, sensors: dict[int, SensorRecord]) -> tuple[LogEntry, ...]:
        """Return the entries since `begin`, oldest first; `sensors` are those of the controller, by number.

        TransientError where the controller does not respond; no entry is skipped.
        """
        if not self._started:
            self.begin()
            return ()
        if not self._supported:
            return ()
        before = self._newest_id, self._newest
        try:
            records = self._new_records()
            if not records:
                return ()
            clock = self._sel_clock()
        except RailwatchError:
            self._newest_id, self._newest = before  # records read so far are read again
            raise
        entries = []
        for record in records:
            sensor = sensors.get(record[11]) if record[7] == CONTROLLER else None
            entries.append(parse_entry(record, sensor, clock))
        return tuple(entries)

    def _new_records(self) -> list[bytes]:
        following = self._after_newest()
        records: list[bytes] = []
        seen: set[int] = set()
        while following != _LAST and following not in seen and len(records) < _MAX_ENTRIES:
            seen.add(following)
            data = self._request(following).at_least(2 + RECORD_BYTES)
            if not data:
                break
            record = data[2 : 2 + RECORD_BYTES]
            self._newest_id, self._newest = int.from_bytes(record[:2], "little"), record
            records.append(record)
            following = int.from_bytes(data[:2], "little")
        return records

    def _after_newest(self) -> int:
        """Return the number of the record behind the newest one; the first where the newest is gone."""
        if not self._newest:
            return _FIRST
        response = self._request(self._newest_id)
        if response.code in NOT_NOW:
            return _LAST
        data = response.at_least(2 + RECORD_BYTES)
        if data[2 : 2 + RECORD_BYTES] == self._newest:
            return int.from_bytes(data[:2], "little")
        self._newest_id, self._newest = _FIRST, b""
        return _FIRST

    def _sel_clock(self) -> SelClock:
        (response,) = self._port.send([IpmiRequest(function=_STORAGE, command=_GET_TIME)])
        stamp = response.at_least(4)[:4]
        return SelClock(ours_ns=self._clock.utc_ns(), its_s=int.from_bytes(stamp, "little") if stamp else None)

    def _request(self, record_id: int) -> IpmiResponse:
        data = b"\x00\x00" + record_id.to_bytes(2, "little") + b"\x00\xff"
        (response,) = self._port.send([IpmiRequest(function=_STORAGE, command=_GET_ENTRY, data=data)])
        return response
