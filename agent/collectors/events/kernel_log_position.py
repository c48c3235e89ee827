"""Where in the kernel's log reading stands, kept in a file: a process that starts again goes on behind that record."""

import json
import logging
from pathlib import Path

from agent.collectors.events.kernel_log import KernelLine, KernelLog, LineParser
from telemetry.records import Event

logger = logging.getLogger(__name__)


class LinesSince:
    """A `LineParser` that leaves out what was logged before a time: the log holds all since the boot."""

    def __init__(self, parser: LineParser, since_ns: int) -> None:
        self._parser = parser
        self._since_ns = since_ns

    @property
    def unparsed(self) -> int:
        """Driver lines so far that no pattern fits."""
        return self._parser.unparsed

    def parse(self, line: KernelLine) -> tuple[Event, ...]:
        """Return the events that this line tells of or completes; mostly none."""
        return self._parser.parse(line) if line.time_ns >= self._since_ns else ()


class KernelLogPosition:
    """The number of the record that was read last, in a file; `log` names the log, so that another boot begins anew."""

    def __init__(self, path: Path, *, log: str) -> None:
        self._path = path
        self._log = log
        self._written: int | None = None

    def read(self) -> int | None:
        """Return the number, None where nothing of this log was read yet."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            return int(kept["sequence"]) if kept["log"] == self._log else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("%s cannot be read: %s", self._path, err)
            return None

    def save(self, sequence: int | None) -> None:
        """Write the number down where it has changed; without it the next process may miss lines."""
        if sequence is None or sequence == self._written:
            return
        self._written = sequence
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(json.dumps({"log": self._log, "sequence": sequence}), encoding="utf-8")
            fresh.replace(self._path)
        except OSError as err:
            logger.warning("%s cannot be written: %s", self._path, err.strerror)


class ResumingKernelLog:
    """A kernel log whose place is kept.

    A record counts as read once the poll after it begins, when its events have been passed on: a process that is
    killed in between tells them twice, under the same ids.
    """

    def __init__(self, log: KernelLog, position: KernelLogPosition) -> None:
        self.name = log.name
        self._log = log
        self._position = position

    def open(self) -> None:
        """Open the log."""
        self._log.open()

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out for records and give the events they tell of."""
        self._position.save(self._log.sequence)
        return self._log.poll(timeout_s)

    def close(self) -> None:
        """Let the log go; closing twice is harmless."""
        self._position.save(self._log.sequence)
        self._log.close()
