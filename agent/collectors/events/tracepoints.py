"""Event source over the drivers' kernel tracepoints: Xids and SXids without log levels, rate limits or forgery.

The tracepoints are ``nvidia/nvidia_dev_xid`` and ``nvswitch/nvswitch_dev_sxid`` (open-gpu-kernel-modules,
nv-tracepoint.h and nvswitch_event.h); both print the text that follows ``NVRM:`` in the kernel log. They are read
through an instance of their own (Documentation/trace/ftrace.rst, "Instances"), so that no other tracing is disturbed.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.collectors.events.driver_messages import event_at, opens_report, uuids_by_slot
from agent.collectors.events.polling import LineBuffer, gap_event, poll_lines
from analytics.kernel_log import KernelLogParser
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import NotPermittedError, NotSupportedError
from telemetry.gpu import GpuIdentity
from telemetry.records import Event

logger = logging.getLogger(__name__)

POINTS = ("nvidia/nvidia_dev_xid", "nvswitch/nvswitch_dev_sxid")
INSTANCE = "railwatch"
_READ_BYTES = 64 << 10
_POLL_S = 0.05
# Documentation/trace/ftrace.rst, "Output format": task-pid [cpu] flags timestamp: function. An instance takes over the
# options of the machine, and `record-tgid` puts the thread group behind the task.
_LINE = re.compile(
    r".{1,17}-\d{1,10}\s{1,8}(?:\([\s\d-]{1,10}\)\s{1,8})?\[\d{1,5}\]\s{1,8}"
    r"(?:[^\s:]{1,12}\s{1,8})?(?P<stamp>\d{1,12}\.\d{6}): "
    r"(?P<point>nvidia_dev_xid|nvswitch_dev_sxid): (?P<text>S?Xid .*)"
)
# kernel/trace/trace.c, print_trace_line: without a number where the buffer does not know it.
_LOST = re.compile(r"CPU:\d{1,5} \[LOST (?:(?P<count>\d{1,18}) )?EVENTS\]")
# heuristic: an instance kept by root has hits of any age; those since a short restart are still reported.
_MAX_AGE_S = 60.0


class Tracepoints:
    """An event source over the trace pipe of an instance.

    Attributes
    ----------
    lost, unparsed
        Tracepoint hits that were overwritten before they were read, where the kernel counts them; lines in another
        format.
    """

    name = "tracepoints"

    def __init__(
        self,
        tracefs: Path,
        gpus: Iterable[GpuIdentity],
        *,
        node: str,
        boot: str,
        clock: Clock,
        wanted: Sequence[str] = POINTS,
    ) -> None:
        self._tracefs = tracefs
        self._wanted = tuple(wanted)
        self._instance = tracefs / "instances" / INSTANCE
        self._uuids = uuids_by_slot(gpus)
        self._node = node
        self._boot = boot
        self._clock = clock
        self._parser = KernelLogParser()
        self._fd: int | None = None
        self._lines = LineBuffer()
        self._count = 0
        self._is_monotonic = False
        self._begun_s = clock.monotonic_s()
        self.lost = 0
        self.unparsed = 0

    def open(self) -> None:
        """Create the instance and enable the tracepoints.

        NotSupportedError where the driver has no such tracepoint, NotPermittedError where only root may use tracefs.
        """
        self.close()
        try:
            points = points_of(self._tracefs, self._wanted)
            if not points:
                raise NotSupportedError(f"{self._tracefs}/events has none of {', '.join(POINTS)}")
            if not self._instance.is_dir():
                self._instance.mkdir()
            self._is_monotonic = _take_monotonic_clock(self._instance / "trace_clock")
            for point in points:
                _switch_on(self._instance / "events" / point / "enable")
            self._fd = os.open(self._instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError as err:
            raise NotPermittedError(f"{err.filename}: {err.strerror}") from err

    def close(self) -> None:
        """Disable the tracepoints and remove the instance; closing twice is harmless."""
        if self._fd is None:
            return
        os.close(self._fd)
        self._fd = None
        self._lines = LineBuffer()
        for point in self._wanted:
            with contextlib.suppress(OSError):
                (self._instance / "events" / point / "enable").write_text("0", encoding="ascii")
        with contextlib.suppress(OSError):  # another program has it open
            self._instance.rmdir()

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out for lines and return their events."""
        if self._fd is None:
            self.open()
        return poll_lines(self._read, self._line, self._clock, timeout_s=timeout_s, every_s=_POLL_S)

    def _read(self) -> list[bytes]:
        if self._fd is None:
            return []
        try:
            chunk = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return []
        return self._lines.split(chunk)

    def _line(self, line: bytes) -> list[Event]:
        text = line.decode("utf-8", errors="replace").strip("\r")
        lost = _LOST.match(text)
        if lost is not None:
            return [self._gap(None if lost["count"] is None else int(lost["count"]))]
        found = _LINE.match(text)
        self._count += 1
        parsed = () if found is None else self._parser.feed(self._count, found["text"])
        if found is None or not parsed:
            if text.strip():
                self.unparsed += 1
                if self.unparsed == 1:
                    logger.warning("tracepoint line in unknown format: %s", text[:200])
            return []
        stamp_s, now_s = float(found["stamp"]), self._clock.monotonic_s()
        if not self._is_monotonic:
            stamp_s = now_s
        if stamp_s < self._begun_s - _MAX_AGE_S:
            return []
        time_ns = self._clock.utc_ns() - round(max(0.0, now_s - stamp_s) * NS_PER_S)
        place = f"trace:{self._boot}:{found['stamp']}"
        return [
            event_at(place, event, time_ns=time_ns, uuids=self._uuids, log=self.name)
            for event in parsed
            if opens_report(event)
        ]

    def _gap(self, count: int | None) -> Event:
        """Count and report lost hits, None for an unknown number."""
        self.lost += count or 0
        message = f"{count or 'Some'} tracepoint hits were overwritten before they were read"
        return gap_event("trace_gap", message, node=self._node, source=self.name, time_ns=self._clock.utc_ns())


def may_use(tracefs: Path) -> bool:
    """Return True if this user can create an instance, or root created one for it."""
    instances = tracefs / "instances"
    return os.access(instances, os.W_OK | os.X_OK) or os.access(instances / INSTANCE / "trace_pipe", os.R_OK)


def _take_monotonic_clock(file: Path) -> bool:
    """Request time stamps of the monotonic clock, which empties the buffer; return True if the clock is in use."""
    with contextlib.suppress(OSError):
        file.write_text("mono", encoding="ascii")
        return True
    with contextlib.suppress(OSError):
        return "[mono]" in file.read_text(encoding="ascii")
    return False


def _switch_on(switch: Path) -> None:
    """Enable a tracepoint, without writing where root has enabled it already."""
    with contextlib.suppress(OSError):
        if switch.read_text(encoding="ascii").strip() == "1":
            return
    switch.write_text("1", encoding="ascii")


def points_of(tracefs: Path, wanted: Sequence[str] = POINTS) -> tuple[str, ...]:
    """Return the drivers' tracepoints that the kernel has now; PermissionError where only root may read them."""
    next((tracefs / "events").iterdir(), None)  # is_dir() returns False without permission; this raises
    return tuple(point for point in wanted if (tracefs / "events" / point).is_dir())
