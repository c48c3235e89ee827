"""Follows the journals of a run and the kernel log: every record and every line once."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.collectors.events.kernel_log import KernelLine as LogLine
from telemetry.errors import RailwatchError
from telemetry.record_journal import Position, RecordJournalReader
from telemetry.recording_rows import KernelLogRow
from telemetry.records import Event, Record

logger = logging.getLogger(__name__)

# Lines between two reads; a storm beyond that is counted, not kept. A kernel log of 1 MiB holds about as many.
_MAX_LINES = 10_000
# Polls per read, so that a storm cannot hold it up; one poll returns a thousand records at most.
_MAX_POLLS = 10


class LineSource(Protocol):
    """Source of kernel log lines; it passes each to the `RawLineParser` that it was built with."""

    @property
    def sequence(self) -> int | None:
        """The number of the newest record that was read, None before the first."""
        ...

    @property
    def records_lost(self) -> int:
        """Number of records that were overwritten before they were read."""
        ...

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Read new lines."""
        ...


@dataclass(slots=True)
class RawLineParser:
    """Parser of the kernel log that keeps the lines unchanged.

    Lines before `since_ns` are skipped until the log was read to its end once: later lines are new,
    wherever the wall clock is set to.
    """

    since_ns: int = 0
    unparsed: int = 0
    lost: int = 0
    _waiting: deque[KernelLogRow] = field(default_factory=deque)

    def parse(self, line: LogLine) -> tuple[Event, ...]:
        """Keep a line; return no event."""
        if line.time_ns >= self.since_ns:
            self._waiting.append(KernelLogRow(time_ns=line.time_ns, text=line.text))
            if len(self._waiting) > _MAX_LINES:
                self._waiting.popleft()
                self.lost += 1
        return ()

    def take(self) -> tuple[KernelLogRow, ...]:
        """Return the lines since the last call."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken


class RecordFollower:
    """Reads new records of journals and new lines of the kernel log.

    Parameters
    ----------
    journals
        By name, each read from its current position.
    source
        None where no kernel log can be read.
    """

    def __init__(
        self,
        journals: Mapping[str, RecordJournalReader],
        *,
        lines: RawLineParser,
        source: LineSource | None,
    ) -> None:
        self._readers = dict(journals)
        self._lines = lines
        self._source = source
        self._trouble = ""

    @property
    def positions(self) -> dict[str, Position]:
        """Position of the next read in each journal."""
        return {name: reader.position for name, reader in self._readers.items()}

    @property
    def sequence(self) -> int | None:
        """The number of the newest record of the kernel log, None where none was read."""
        return None if self._source is None else self._source.sequence

    @property
    def lines_lost(self) -> int:
        """Lines of the kernel log that were too many, or overwritten before they were read."""
        return self._lines.lost + (0 if self._source is None else self._source.records_lost)

    def records(self) -> list[Record]:
        """Return the records that are new, journal by journal, each in the order in which it was written."""
        found: list[Record] = []
        for name, reader in self._readers.items():
            try:
                found += reader.read()
            except OSError as err:
                self._log_trouble(f"journal {name}: {err.strerror}")
        return found

    def lines(self) -> Sequence[KernelLogRow]:
        """Return the lines of the kernel log that are new."""
        if self._source is not None:
            try:
                self._catch_up(self._source)
            except RailwatchError as err:
                self._log_trouble(f"kernel log: {err}")
                self._source = None
        return self._lines.take()

    def _catch_up(self, source: LineSource) -> None:
        for _ in range(_MAX_POLLS):
            before = source.sequence
            source.poll(0.0)
            if source.sequence == before:
                self._lines.since_ns = 0
                return

    def _log_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("cannot read, so recordings will lack: %s", trouble)
        self._trouble = trouble
