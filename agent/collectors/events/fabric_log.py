"""Event source over the log of NVIDIA's Fabric Manager: errors of NVSwitches, and its own."""

import logging
import os
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.events.driver_messages import event_at, uuids_by_slot
from agent.collectors.events.polling import LineBuffer, poll_lines
from analytics.kernel_log import KernelLogParser
from analytics.kernel_log.sxid import fabric_line
from telemetry.clock import Clock
from telemetry.errors import NotPermittedError
from telemetry.gpu import GpuIdentity
from telemetry.records import Event, EventKind

logger = logging.getLogger(__name__)

_READ_BYTES = 64 << 10

_POLL_S = 0.25
_NUMBER = re.compile(r"\d+")
# heuristic: a repeated error is reported once a minute; handles and ids in its text change each time.
_REPEAT_AFTER_S = 60.0
_MAX_REMEMBERED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TailedLine:
    """A whole line; inode and offset identify it for as long as the file exists."""

    inode: int
    offset_bytes: int
    text: str


class TailedFile:
    """Follows a log file from the end that it had when it was first opened.

    A file that was renamed away is read to its end before the one in its place is read from its beginning; one that
    was truncated is read from its beginning. The file may be created later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._inode = 0
        self._offset_bytes = 0
        self._buffer = LineBuffer()
        self._begun = False

    def open(self) -> None:
        """Seek to the end the first time, continue from there after `close`; the file may be missing."""
        if self._fd is None:
            self._attach()
        self._begun = True

    def close(self) -> None:
        """Close the file and keep the position; closing twice is harmless."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def lines(self) -> tuple[TailedLine, ...]:
        """Return the lines appended since the last call, at most 64 KiB."""
        if self._fd is None:
            self._attach()
        if self._fd is None:
            return ()
        size_bytes = os.fstat(self._fd).st_size
        if size_bytes < self._offset_bytes:
            self._offset_bytes, self._buffer = 0, LineBuffer()
        chunk = os.pread(self._fd, _READ_BYTES, self._offset_bytes)
        if not chunk:
            self._follow()
            return ()
        first = self._offset_bytes - len(self._buffer.partial)
        self._offset_bytes += len(chunk)
        found = []
        for line in self._buffer.split(chunk):
            text = line.decode("utf-8", errors="replace").rstrip("\r")
            found.append(TailedLine(inode=self._inode, offset_bytes=first, text=text))
            first += len(line) + 1
        return tuple(found)

    def _attach(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        status = os.fstat(fd)
        if status.st_ino != self._inode:
            self._offset_bytes = 0 if self._begun else status.st_size
            self._buffer = LineBuffer()
        self._fd, self._inode = fd, status.st_ino

    def _follow(self) -> None:
        """Switch to the file that replaced this one, if there is one; this one has been read to its end."""
        try:
            replaced = os.stat(self._path).st_ino != self._inode  # noqa: PTH116 -- called often; no Path object wanted
        except FileNotFoundError:
            return
        if replaced:
            self.close()
            self._attach()


class FabricLog:
    """An event source over lines that the Fabric Manager appends after start.

    The log's time stamps have whole seconds and no zone, so events carry the time of reading.

    `malformed` counts lines in another format, `repeated` errors that were already reported within the minute.
    """

    name = "fabric_manager"

    def __init__(self, path: Path, gpus: Iterable[GpuIdentity], *, node: str, clock: Clock) -> None:
        self._file = TailedFile(path)
        self._uuids = uuids_by_slot(gpus)
        self._node = node
        self._clock = clock
        self._parser = KernelLogParser()
        self._lines = 0
        self._reported_s: OrderedDict[str, float] = OrderedDict()
        self.malformed = 0
        self.repeated = 0

    def open(self) -> None:
        """Seek to the end of the log; a missing log is opened once it exists."""
        try:
            self._file.open()
        except PermissionError as err:
            raise NotPermittedError(f"{err.filename}: {err.strerror}") from err

    def close(self) -> None:
        """Close the log; closing twice is harmless."""
        self._file.close()

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out for lines and return their events."""
        return poll_lines(self._file.lines, self._line, self._clock, timeout_s=timeout_s, every_s=_POLL_S)

    def _line(self, line: TailedLine) -> tuple[Event, ...]:
        parsed = fabric_line(line.text)
        self._lines += 1
        switches = self._parser.feed(self._lines, line.text)
        place, time_ns = f"fabric:{line.inode}:{line.offset_bytes}", self._clock.utc_ns()
        if switches:
            return tuple(
                event_at(place, event, time_ns=time_ns, uuids=self._uuids, log=self.name) for event in switches
            )
        if parsed is None:
            self._count_malformed(line.text)
            return ()
        if parsed.severity is None or self._is_repeated(parsed.text):
            return ()
        return (
            Event(
                id=place,
                time_ns=time_ns,
                kind=EventKind.FABRIC,
                entity_id=f"node:{self._node}",
                code=None,
                severity=parsed.severity,
                message=f"Fabric Manager: {parsed.text}",
                sources=(self.name,),
            ),
        )

    def _is_repeated(self, text: str) -> bool:
        """Return True if the same error, with any numbers, was reported within the last minute."""
        shape, now_s = _NUMBER.sub("#", text), self._clock.monotonic_s()
        last_s = self._reported_s.get(shape)
        if last_s is not None and now_s - last_s < _REPEAT_AFTER_S:
            self.repeated += 1
            return True
        self._reported_s[shape] = now_s
        self._reported_s.move_to_end(shape)
        if len(self._reported_s) > _MAX_REMEMBERED:
            self._reported_s.popitem(last=False)
        return False

    def _count_malformed(self, text: str) -> None:
        if not text.strip():
            return
        self.malformed += 1
        if self.malformed == 1:
            logger.warning("Fabric Manager log: line in unknown format: %s", text[:200])
