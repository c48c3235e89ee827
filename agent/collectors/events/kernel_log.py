"""Event source over the kernel log: every record of the kernel itself, in order, gaps counted, across restarts.

Record format and errors of ``/dev/kmsg`` are those of Documentation/ABI/testing/dev-kmsg in the Linux kernel. A plain
file with the same records, one a line, is read the same way.
"""

import contextlib
import errno
import json
import logging
import os
import select
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from agent.collectors.events.polling import LineBuffer, gap_event, poll_lines
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import NotPermittedError, TransientError
from telemetry.folder_watch import FILE_CHANGES, inotify_fd
from telemetry.json_text import json_bytes
from telemetry.records import Event

logger = logging.getLogger(__name__)

_READ_BYTES = 8192  # one record of the device is at most 1 KiB of text and its dictionary
# Interval of looks at a file whose changes the kernel does not report. Heuristic.
_POLL_S = 0.1
_MAX_RECORDS_PER_POLL = 1000
# heuristic: a plain file may hold time stamps of another machine or boot; those of the device are always this boot's.
_PLAUSIBLE_AGE_NS = 60 * NS_PER_S
_NS_PER_US = 1000


class StartPosition(StrEnum):
    """Position at which reading begins when the log is opened for the first time."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLine:
    """A record: its text, its time, and its number, None where the record is malformed."""

    time_ns: int
    sequence: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """Fields of one record of ``/dev/kmsg``; `logged_us` counts microseconds since boot."""

    facility: int
    sequence: int
    logged_us: int
    text: str


def parse_record(record: bytes) -> KernelRecord | None:
    """Parse ``priority,sequence,microseconds,flags;text``, dictionary lines behind it dropped; None for other text.

    The priority's low three bits are the level, the rest is the facility.
    """
    head, separator, rest = record.partition(b";")
    fields = head.split(b",")
    try:
        priority, sequence, logged_us = int(fields[0]), int(fields[1]), int(fields[2])
    except (ValueError, IndexError):
        return None
    text = (rest if separator else record).split(b"\n", 1)[0].decode("utf-8", errors="replace")
    return KernelRecord(facility=priority >> 3, sequence=sequence, logged_us=logged_us, text=text)


class LineParser(Protocol):
    """Turns kernel lines into events."""

    @property
    def unparsed(self) -> int:
        """Driver lines so far that match no pattern."""
        ...

    def parse(self, line: KernelLine) -> tuple[Event, ...]:
        """Return the events that this line starts or completes; mostly none. Never raises."""
        ...


class KernelLog:
    """An event source over a kernel log.

    Only facility 0 counts: root can write records of any other facility into the log, and a forged Xid must not move
    a clock. A record in another format is passed to the parser as text, and counted.

    Attributes
    ----------
    malformed, gaps, records_lost, overruns
        Records in another format; times that records were overwritten before they were read, and how many by their
        numbers; times that the kernel reported an overwrite (EPIPE).

    Parameters
    ----------
    after
        Number of the last record that an earlier process read; None where there is none.
    read
        Replaces `os.read` in tests.
    """

    name = "kernel_log"

    def __init__(
        self,
        path: Path,
        *,
        node: str,
        parser: LineParser,
        clock: Clock,
        start: StartPosition = StartPosition.END,
        after: int | None = None,
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self._path = path
        self._node = node
        self._parser = parser
        self._clock = clock
        self._start = start
        self._read = read
        self._fd: int | None = None
        self._changes_fd: int | None = None
        self._is_device = False
        self._sequence = after
        self._opened_before = False
        self._offset_bytes = 0
        self._lines = LineBuffer()
        self._lost_before_first = False
        self.malformed = 0
        self.gaps = 0
        self.records_lost = 0
        self.overruns = 0

    @property
    def sequence(self) -> int | None:
        """Number of the newest record that was read, None before the first."""
        return self._sequence

    @property
    def unparsed(self) -> int:
        """Driver lines that match no pattern, and records in another format."""
        return self._parser.unparsed + self.malformed

    def open(self) -> None:
        """Open the log; after the first time, reading continues behind the last record that was read.

        Raises
        ------
        NotPermittedError, TransientError
            It cannot be read now; the message names path and reason. `poll` raises the same.
        """
        self.close()
        with self._errors():
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._fd = fd
        self._is_device = stat.S_ISCHR(os.fstat(fd).st_mode)
        self._lines = LineBuffer()
        if not self._opened_before and self._start is StartPosition.END:
            end = os.lseek(fd, 0, os.SEEK_END)
            self._offset_bytes = 0 if self._is_device else end
        self._opened_before = True

    def close(self) -> None:
        """Close the log; closing twice is harmless."""
        if self._changes_fd is not None and self._changes_fd >= 0:
            os.close(self._changes_fd)
        self._changes_fd = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out for records and return their events."""
        return poll_lines(
            self._records, self._record, self._clock, timeout_s=timeout_s, every_s=_POLL_S, wait=self._wait
        )

    def _wait(self, timeout_s: float) -> bool | None:
        """Wait until there is a record; return False after the time-out, None for a file that cannot be waited for."""
        if self._fd is None:
            return True
        if self._is_device:
            return _is_readable(self._fd, timeout_s)
        if self._changes_fd is None:  # a reader that never waits needs none
            self._changes_fd = inotify_fd([self._path], FILE_CHANGES)
            return True  # the file may have changed since it was read
        if self._changes_fd < 0:
            return None
        is_ready = _is_readable(self._changes_fd, timeout_s)
        if is_ready:
            os.read(self._changes_fd, _READ_BYTES)
        return is_ready

    def _records(self) -> list[bytes]:
        """Read the records that are available now."""
        if self._fd is None:
            self.open()
        if self._fd is None:
            return []
        with self._errors():
            return self._device_records(self._fd) if self._is_device else self._file_records(self._fd)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as err:
            raise NotPermittedError(f"{self._path}: {err.strerror}") from err
        except OSError as err:
            raise TransientError(f"{self._path}: {err.strerror}") from err

    def _device_records(self, fd: int) -> list[bytes]:
        records: list[bytes] = []
        while len(records) < _MAX_RECORDS_PER_POLL:
            try:
                records.append(self._read(fd, _READ_BYTES))
            except BlockingIOError:
                break
            except OSError as err:
                if err.errno == errno.EINVAL:  # longer than the buffer: the kernel has skipped it
                    self.malformed += 1
                elif err.errno == errno.EPIPE:  # overwritten: continues at the oldest record; numbers show the gap
                    self.overruns += 1
                    self._lost_before_first |= self._sequence is None and not records
                else:
                    raise
        return records

    def _file_records(self, fd: int) -> list[bytes]:
        """Read whole lines behind the last one; a file that shrank or was replaced is read from its beginning."""
        status = os.fstat(fd)
        if status.st_nlink == 0 or status.st_size < self._offset_bytes:
            self._offset_bytes, self._lines, self._sequence = 0, LineBuffer(), None
            if status.st_nlink == 0:
                self.close()
                return []
        chunk = os.pread(fd, _READ_BYTES * 16, self._offset_bytes)
        self._offset_bytes += len(chunk)
        return self._lines.split(chunk)

    def _record(self, record: bytes) -> list[Event]:
        """Return the events of one record, a gap before it among them."""
        if not record.strip() or record.startswith(b" "):
            return []
        parsed = parse_record(record)
        if parsed is None:
            self.malformed += 1
            whole = record.decode("utf-8", errors="replace").rstrip()
            return list(self._parser.parse(KernelLine(time_ns=self._clock.utc_ns(), sequence=None, text=whole)))
        events: list[Event] = []
        if self._sequence is None:
            if self._lost_before_first:  # how many is unknown
                events += self._gap(None)
        elif parsed.sequence <= self._sequence:
            return []
        elif parsed.sequence > self._sequence + 1:
            events += self._gap(parsed.sequence - self._sequence - 1)
        self._sequence = parsed.sequence
        if parsed.facility == 0:
            time_ns = self._time_ns(parsed.logged_us)
            line = KernelLine(time_ns=time_ns, sequence=parsed.sequence, text=parsed.text)
            events += self._parser.parse(line)
        return events

    def _time_ns(self, logged_us: int) -> int:
        """Convert a record's microseconds since boot to UTC."""
        now_ns = self._clock.utc_ns()
        age_ns = round(self._clock.monotonic_s() * NS_PER_S) - logged_us * _NS_PER_US
        if not self._is_device and not 0 <= age_ns <= _PLAUSIBLE_AGE_NS:
            return now_ns
        return now_ns - max(0, age_ns)

    def _gap(self, records: int | None) -> list[Event]:
        """Count and report a gap of `records`, None for an unknown number."""
        self.gaps += 1
        self.records_lost += records or 0
        time_ns = self._clock.utc_ns()
        message = f"{records or 'Some'} records of the kernel log were overwritten before they were read"
        suffix = f":{self.gaps}"
        return [gap_event("kernel_gap", message, node=self._node, source=self.name, time_ns=time_ns, suffix=suffix)]


def _is_readable(descriptor: int, timeout_s: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000.0 * timeout_s))


class LinesSince:
    """A `LineParser` that drops lines logged before a time: the log holds every record since boot."""

    def __init__(self, parser: LineParser, since_ns: int) -> None:
        self._parser = parser
        self._since_ns = since_ns

    @property
    def unparsed(self) -> int:
        """Driver lines so far that match no pattern."""
        return self._parser.unparsed

    def parse(self, line: KernelLine) -> tuple[Event, ...]:
        """Return the events that this line starts or completes; mostly none."""
        return self._parser.parse(line) if line.time_ns >= self._since_ns else ()


class KernelLogPosition:
    """Number of the last record that was read, in a file; `log` names the boot, so that another boot starts afresh."""

    def __init__(self, path: Path, *, log: str) -> None:
        self._path = path
        self._log = log
        self._written: int | None = None

    def read(self) -> int | None:
        """Return the number, None where no record of this log was read yet."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            return int(kept["sequence"]) if kept["log"] == self._log else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("cannot read kernel log position from %s: %s", self._path, err)
            return None

    def save(self, sequence: int | None) -> None:
        """Save the number if it has changed; without it the next process may miss lines."""
        if sequence is None or sequence == self._written:
            return
        self._written = sequence
        body = json_bytes({"log": self._log, "sequence": sequence})
        try:
            replace_file(self._path, body, synced=False)
        except OSError as err:
            logger.warning("cannot save kernel log position to %s: %s", self._path, err.strerror)


class ResumingKernelLog:
    """A kernel log whose position is saved.

    A record counts as read when the next poll begins, after its events have been passed on: a process that is killed
    in between reports them twice, with the same ids.
    """

    def __init__(self, log: KernelLog, position: KernelLogPosition) -> None:
        self.name = log.name
        self._log = log
        self._position = position

    def open(self) -> None:
        """Open the log."""
        self._log.open()

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out for records and return their events."""
        self._position.save(self._log.sequence)
        return self._log.poll(timeout_s)

    def close(self) -> None:
        """Close the log; closing twice is harmless."""
        self._position.save(self._log.sequence)
        self._log.close()
