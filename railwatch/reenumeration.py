"""When the GPUs of a node have to be counted anew: one came onto the bus, or the driver was loaded again."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from telemetry.clock import Clock
from telemetry.records import Event, EventKind, Severity

# own choice: the GPUs of a chassis come and are bound one after the other; each binding takes about a second.
SETTLE_S = 3.0
# own choice: a GPU with a loose contact comes and goes; each count costs all sources the seconds of a process's start.
APART_S = 60.0
_CHANGES = frozenset({EventKind.DEVICE_ADDED, EventKind.DRIVER_BOUND})


class Reenumeration:
    """Listens to events and says when their last one is long enough ago to count the GPUs.

    The driver's handles to a GPU do not survive its removal or a reload of the driver, so the process that reads the
    GPUs starts again: its tables name GPUs by UUID, whatever address or number they have then. `mark` is the file in
    which one process tells the next, of the same boot, when it counted last.
    """

    def __init__(self, clock: Clock, mark: Path) -> None:
        self._clock = clock
        self._mark = mark
        self._at_s: float | None = None
        self._not_before_s = _marked_s(mark, clock.monotonic_s()) + APART_S
        self.reason = ""

    def note(self, events: Iterable[Event]) -> None:
        """Hear of events; a GPU that was given to another driver than NVIDIA's (a warning) changes nothing here."""
        for event in events:
            if event.kind in _CHANGES and event.severity is Severity.INFO:
                self._at_s = self._clock.monotonic_s() + SETTLE_S
                self.reason = event.message

    @property
    def is_due(self) -> bool:
        """Whether GPUs came, and the last of them a while ago."""
        at_s = self._at_s
        return at_s is not None and self._clock.monotonic_s() >= max(at_s, self._not_before_s)

    def leave_mark(self) -> None:
        """Tell the next process that the GPUs are counted now."""
        with contextlib.suppress(OSError):  # then the next one may count a little too early
            self._mark.write_text(f"{self._clock.monotonic_s():.3f}", encoding="ascii")


def _marked_s(mark: Path, now_s: float) -> float:
    """Give when the GPUs were counted anew last; long ago where no file says so, or one of another boot."""
    try:
        marked_s = float(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return now_s - APART_S
    return marked_s if marked_s <= now_s else now_s - APART_S
