"""Source of readings that other programs send: receives lines, writes rows and counts."""

import logging
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.port import SourceState, SourceStatus
from agent.collectors.readings.line import LineRefusedError, SentReading, parse_line
from agent.collectors.readings.listener import Listener, ListenerSettings, Received
from agent.collectors.readings.tables import ReadingTables
from telemetry.clock import NS_PER_S, Clock
from telemetry.records import Event, EventKind, Severity

logger = logging.getLogger(__name__)

# heuristic: lines per fetch and fetches per second: a flood costs no more than 1000 lines a second.
_FETCH_EVERY_S = 0.1
_LINES_PER_FETCH = 100
# heuristic: a sender may batch for a few seconds, and a clock of the same machine is not ahead. Older rows would miss
# their rollup.
OLDEST_S, NEWEST_S = 5.0, 1.0
# heuristic: the first refusal is reported at once, later ones with their number.
_REPORT_EVERY_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingsSettings:
    """Sockets and ring of sent readings.

    `ring_path` and `ring_s` are the path of their ring and the seconds that it holds.
    """

    listener: ListenerSettings
    ring_path: Path
    ring_s: float
    simulated: bool


class Readings:
    """An event source that writes readings to a ring of its own; its events report refused lines.

    `refused` counts refused lines: malformed, or of an entity or signal that may not be sent.
    """

    name = "readings"

    def __init__(self, settings: ReadingsSettings, *, node: str, clock: Clock) -> None:
        self.refused = 0
        self.listener = Listener(settings.listener)
        self._node = node
        self._clock = clock
        self._tables = ReadingTables(
            settings.ring_path, node=node, simulated=settings.simulated, seconds=settings.ring_s
        )
        self._reported = 0
        self._report_at_s = 0.0
        self._count_at_s = 0.0
        self._reason = ""

    @property
    def kept(self) -> int:
        """Accepted lines so far."""
        return self._tables.kept

    def open(self) -> None:
        """Create the ring and the sockets."""
        self._tables.open()
        self.listener.open()

    def close(self) -> None:
        """Close the sockets and the ring; closing twice is harmless."""
        self.listener.close()
        self._tables.close()

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Store the lines that arrive within the time-out; return an event where lines were refused."""
        end_s = self._clock.monotonic_s() + timeout_s
        while (now_s := self._clock.monotonic_s()) < end_s:
            self._store(self.listener.fetch(end_s - now_s, _LINES_PER_FETCH))
            # The next fetch is at its time, however many lines wait: a flood waits in the kernel.
            self._clock.sleep_until(min(end_s, now_s + _FETCH_EVERY_S))
        self._expire_and_count(self._clock.monotonic_s())
        return self._report_refused(self._clock.monotonic_s())

    def _store(self, received: list[Received]) -> None:
        now_ns = self._clock.utc_ns()
        readings: list[tuple[int, SentReading]] = []
        for one in received:
            try:
                reading = parse_line(one.line, node=self._node)
                time_ns = _checked_time_ns(reading.time_ns, now_ns)
                self._tables.admit(reading, now_ns)
            except LineRefusedError as err:
                self.refused += 1
                self._reason = str(err)
                one.refuse(self._reason)
            else:
                readings.append((time_ns, reading))
        if readings:
            self._tables.write(readings)

    def _expire_and_count(self, now_s: float) -> None:
        """Once a second, expire old values and write the counts."""
        if now_s < self._count_at_s:
            return
        self._count_at_s = now_s + 1.0
        now_ns = self._clock.utc_ns()
        self._tables.expire(now_ns)
        self._tables.count(now_ns, refused=self.refused)

    def _report_refused(self, now_s: float) -> tuple[Event, ...]:
        new = self.refused - self._reported
        if not new or now_s < self._report_at_s:
            return ()
        self._reported, self._report_at_s = self.refused, now_s + _REPORT_EVERY_S
        time_ns = self._clock.utc_ns()
        message = f"{new} sent line{'s' if new > 1 else ''} refused, the last one: {self._reason}"
        logger.warning("%s", message)
        return (
            Event(
                id=f"readings_refused:{self._node}:{time_ns}",
                time_ns=time_ns,
                kind=EventKind.COLLECTOR,
                entity_id=f"node:{self._node}",
                code=None,
                severity=Severity.INFO,
                message=message,
                sources=(self.name,),
            ),
        )


def _checked_time_ns(time_ns: int | None, now_ns: int) -> int:
    """Return the time of a reading: its own, if it is near now."""
    if time_ns is None:
        return now_ns
    ahead_s = (time_ns - now_ns) / NS_PER_S
    if -OLDEST_S <= ahead_s <= NEWEST_S:
        return time_ns
    if time_ns < now_ns // 1000:
        raise LineRefusedError(f"time {time_ns}: expected nanoseconds since 1970 UTC")
    where = "ahead" if ahead_s > 0 else "old"
    raise LineRefusedError(f"time {time_ns} is {abs(ahead_s):.1f} s {where}; send within {OLDEST_S:g} s")


def readings_status(settings: ListenerSettings) -> SourceStatus:
    """Return the status with the addresses that other programs can send to."""
    if settings.lacks_group:
        return SourceStatus(
            name=Readings.name,
            state=SourceState.NOT_PERMITTED,
            detail=f"group {settings.group} does not exist",
            how_to_get=f"groupadd {settings.group}, or name another in `sources.readings.group`",
        )
    places = [str(settings.path), str(settings.stream_path)]
    if settings.tcp_port is not None:
        places.append(f"127.0.0.1:{settings.tcp_port}")
    return SourceStatus(name=Readings.name, state=SourceState.WORKING, detail=f"sent to {', '.join(places)}")
