"""Event source over the log of NVIDIA's Fabric Manager: errors of NVSwitches, and its own."""

import logging
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from agent.collectors.events.tailed_file import TailedFile, TailedLine
from agent.driver.port import GpuIdentity
from analytics.kernel_log import KernelLogParser, to_event
from analytics.kernel_log.sxid import fabric_line
from telemetry.clock import Clock
from telemetry.errors import NotPermittedError
from telemetry.records import Event, EventKind

logger = logging.getLogger(__name__)

_POLL_S = 0.25
_NUMBER = re.compile(r"\d+")
# heuristic: a repeated error is reported once a minute; handles and ids in its text change each time.
_REPEAT_AFTER_S = 60.0
_MAX_REMEMBERED = 256


class FabricLog:
    """An event source over lines that the Fabric Manager appends after start.

    The log's time stamps have whole seconds and no zone, so events carry the time of reading.

    Attributes
    ----------
    malformed, repeated
        Lines in another format; errors that were already reported within the minute.
    """

    name = "fabric_manager"

    def __init__(self, path: Path, gpus: Iterable[GpuIdentity], *, node: str, clock: Clock) -> None:
        self._file = TailedFile(path)
        self._uuids = {gpu.pci.rpartition(".")[0]: gpu.uuid for gpu in gpus}
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
        end_s = self._clock.monotonic_s() + timeout_s
        while True:
            lines = self._file.lines()
            events = tuple(event for line in lines for event in self._line(line))
            now_s = self._clock.monotonic_s()
            if lines or now_s >= end_s:
                return events
            self._clock.sleep_until(min(end_s, now_s + _POLL_S))

    def _line(self, line: TailedLine) -> tuple[Event, ...]:
        parsed = fabric_line(line.text)
        self._lines += 1
        switches = self._parser.feed(self._lines, line.text)
        if switches:
            where = f"fabric:{line.inode}:{line.offset_bytes}"
            return tuple(
                replace(
                    to_event(
                        replace(event, line=0, report_line=0),
                        time_ns=self._clock.utc_ns(),
                        uuids=self._uuids,
                        source=where,
                    ),
                    sources=(self.name,),
                )
                for event in switches
            )
        if parsed is None:
            self._count_malformed(line.text)
            return ()
        if parsed.severity is None or self._is_repeated(parsed.text):
            return ()
        return (
            Event(
                id=f"fabric:{line.inode}:{line.offset_bytes}",
                time_ns=self._clock.utc_ns(),
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
