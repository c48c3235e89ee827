"""Parts of event sources that are polled: the loop that waits for lines, lines of chunks, the event of a gap."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from telemetry.clock import Clock
from telemetry.records import Event, EventKind, Severity

logger = logging.getLogger(__name__)

Line = TypeVar("Line")
_MAX_LINE_BYTES = 64 << 10


def poll_lines(
    read: Callable[[], Sequence[Line]],
    parse: Callable[[Line], Iterable[Event]],
    clock: Clock,
    *,
    timeout_s: float,
    every_s: float,
    wait: Callable[[float], bool | None] = lambda _: None,
) -> tuple[Event, ...]:
    """Read until there are lines or the time-out has passed; return the events of the lines.

    Parameters
    ----------
    wait
        Waits until there is something to read; False after the given seconds, None where the source cannot wait. Such
        a source, and one that was ready without a line, is read again after `every_s`.
    """
    end_s = clock.monotonic_s() + timeout_s
    is_ready, waited = False, None
    while True:
        lines = read()
        events = tuple(event for line in lines for event in parse(line))
        now_s = clock.monotonic_s()
        if lines or now_s >= end_s or waited is False:
            return events
        waited = None if is_ready else wait(end_s - now_s)
        is_ready = bool(waited)
        if waited is None:
            clock.sleep_until(min(end_s, now_s + every_s))


class LineBuffer:
    """Splits chunks into lines; `partial` is the unfinished line behind the last one, 64 KiB at most."""

    def __init__(self) -> None:
        self.partial = b""

    def split(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes, without their ends; one beyond 64 KiB counts as complete."""
        *lines, self.partial = (self.partial + chunk).split(b"\n")
        if len(self.partial) > _MAX_LINE_BYTES:
            lines.append(self.partial)
            self.partial = b""
        return lines


def gap_event(prefix: str, message: str, *, node: str, source: str, time_ns: int, suffix: str = "") -> Event:
    """Log and return the event of messages that were overwritten before they were read."""
    logger.warning("%s", message)
    return Event(
        id=f"{prefix}:{node}:{time_ns}{suffix}",
        time_ns=time_ns,
        kind=EventKind.KERNEL_GAP,
        entity_id=f"node:{node}",
        code=None,
        severity=Severity.WARNING,
        message=message,
        sources=(source,),
    )
