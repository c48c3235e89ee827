"""A controller in memory: as an IPMI port with the quirks that real ones have, and as a link."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.collectors.bmc.ipmi_port import (
    CANNOT_RETURN,
    INVALID_COMMAND,
    NOT_PRESENT,
    OK,
    RESERVATION_LOST,
    IpmiRequest,
    IpmiResponse,
)
from agent.collectors.bmc.point import LogEntry, Point
from telemetry.errors import RailwatchError, TransientError

STORAGE, SENSOR = 0x0A, 0x04
LAST = 0xFFFF


@dataclass(slots=True)
class FakePort:
    """An `IpmiPort`: records, readings and a log that a test fills.

    `lose` is the number of reservations that are lost, `most_bytes` the limit of record bytes per response, `busy` the
    number of next commands that find it busy; `takes` is the time of a call, and after `error_after` calls it fails
    once.
    """

    records: list[bytes] = field(default_factory=list)
    readings: dict[int, bytes] = field(default_factory=dict)
    log: dict[int, bytes] = field(default_factory=dict)
    name: str = "fake"
    most_bytes: int = 255
    lose: int = 0
    busy: int = 0
    stamp: int = 1
    time_s: int | None = 1_700_000_000
    has_repository: bool = True
    has_log: bool = True
    circular: bool = False
    dcmi: bytes | None = None
    received: list[IpmiRequest] = field(default_factory=list)
    takes: Callable[[], None] | None = None
    error: RailwatchError | None = None
    error_after: int | None = None
    closed: int = 0

    def send(self, requests: Sequence[IpmiRequest]) -> tuple[IpmiResponse, ...]:
        if self.error is not None:
            raise self.error
        if self.error_after is not None:
            self.error_after -= 1
            if self.error_after < 0:
                self.error_after = None
                raise TransientError("it hung up")
        if self.takes is not None:
            self.takes()
        self.received += requests
        return tuple(self._one(request) for request in requests)

    def close(self) -> None:
        self.closed += 1

    def count(self, function: int, command: int) -> int:
        return sum((request.function, request.command) == (function, command) for request in self.received)

    def _one(self, request: IpmiRequest) -> IpmiResponse:
        if self.busy:
            self.busy -= 1
            return IpmiResponse(code=0xC0)
        match (request.function, request.command):
            case (0x0A, 0x20) if self.has_repository:
                stamps = self.stamp.to_bytes(4, "little") * 2
                response = IpmiResponse(code=OK, data=bytes([0x51, len(self.records), 0, 0, 0]) + stamps + b"\x02")
            case (0x0A, 0x22):
                response = IpmiResponse(code=OK, data=b"\x07\x00")
            case (0x0A, 0x23):
                response = self._record(request.data)
            case (0x04, 0x2D):
                found = self.readings.get(request.data[0])
                response = IpmiResponse(code=NOT_PRESENT) if found is None else IpmiResponse(code=OK, data=found)
            case (0x0A, 0x43) if self.has_log:
                response = self._entry(int.from_bytes(request.data[2:4], "little"))
            case (0x0A, 0x48) if self.time_s is not None:
                response = IpmiResponse(code=OK, data=self.time_s.to_bytes(4, "little"))
            case (0x2C, 0x02) if self.dcmi is not None:
                response = IpmiResponse(code=OK, data=self.dcmi)
            case _:
                response = IpmiResponse(code=INVALID_COMMAND)
        return response

    def _record(self, data: bytes) -> IpmiResponse:
        number, offset, count = int.from_bytes(data[2:4], "little"), data[4], data[5]
        if offset and self.lose:
            self.lose -= 1
            return IpmiResponse(code=RESERVATION_LOST)
        if count > self.most_bytes:
            return IpmiResponse(code=CANNOT_RETURN)
        following = number + 1 if number + 1 < len(self.records) else LAST
        if self.circular and following == LAST:
            following = 0
        return IpmiResponse(
            code=OK, data=following.to_bytes(2, "little") + self.records[number][offset : offset + count]
        )

    def _entry(self, number: int) -> IpmiResponse:
        known = sorted(self.log)
        if not known:
            return IpmiResponse(code=NOT_PRESENT)
        number = {0: known[0], LAST: known[-1]}.get(number, number)
        if number not in self.log:
            return IpmiResponse(code=NOT_PRESENT)
        later = [other for other in known if other > number]
        return IpmiResponse(code=OK, data=(later[0] if later else LAST).to_bytes(2, "little") + self.log[number])


@dataclass(slots=True)
class FakeLink:
    """A `BoardLink` whose values, entries and errors a test sets; `log_takes` is the time of a read of its log."""

    points: tuple[Point, ...] = ()
    values: dict[str, float] = field(default_factory=dict)
    entries: list[LogEntry] = field(default_factory=list)
    error: RailwatchError | None = None
    log_takes: Callable[[], None] | None = None
    name: str = "fake board"
    opened: int = 0
    closed: int = 0
    reads: int = 0

    def open(self) -> tuple[Point, ...]:
        if self.error is not None:
            raise self.error
        self.opened += 1
        return self.points

    def read(self) -> Mapping[str, float]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.values

    def new_entries(self) -> tuple[LogEntry, ...]:
        if self.error is not None:
            raise self.error
        if self.log_takes is not None:
            self.log_takes()
        entries, self.entries = tuple(self.entries), []
        return entries

    def close(self) -> None:
        self.closed += 1
