"""Reader of new entries of a controller's event log, also after it was cleared, wrapped or renumbered."""

import logging

from agent.collectors.bmc.ipmi_port import INVALID_COMMAND, NO_PRIVILEGE, NOT_NOW, IpmiPort, IpmiRequest, IpmiResponse
from agent.collectors.bmc.point import LogEntry
from agent.collectors.bmc.sdr import SensorRecord
from agent.collectors.bmc.sdr_reader import CONTROLLER
from agent.collectors.bmc.sel import RECORD_BYTES, SelClock, parse_entry
from telemetry.clock import Clock
from telemetry.errors import RailwatchError

logger = logging.getLogger(__name__)

_STORAGE = 0x0A
_GET_ENTRY, _GET_TIME = 0x43, 0x48
_FIRST, _LAST = 0x0000, 0xFFFF
# heuristic: entries per call; the next call reads on, so that a log of thousands delays no other source.
_MAX_ENTRIES = 64


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

        Raises
        ------
        TransientError
            The controller does not respond; no entry is skipped.
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
