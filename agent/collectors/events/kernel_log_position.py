"""Position in the kernel log, saved in a file, so that a restarted process continues behind the last record."""

import json
import logging
from pathlib import Path

from agent.collectors.events.kernel_log import KernelLine, KernelLog, LineParser
from telemetry.atomic_files import replace_file
from telemetry.records import Event

logger = logging.getLogger(__name__)


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
        body = json.dumps({"log": self._log, "sequence": sequence}).encode()
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
