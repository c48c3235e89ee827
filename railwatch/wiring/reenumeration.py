"""Re-enumeration of the GPUs of a node: one was added to the bus, the driver was loaded again, one was split.

The process that counts the GPUs receives the events of the bus. The process for slow sources reads whether a GPU is
split into instances, and writes a request on a change; it counts again itself once the other has.
"""

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path

from agent.ring.ring import RingTable
from telemetry.clock import Clock
from telemetry.records import Event, EventKind, Severity

logger = logging.getLogger(__name__)

# Both are in the run folder: when the GPUs were last counted, and why they have to be.
COUNTED_FILE, WANTED_FILE = "counted-anew", "to-be-counted"
_MIG_SIGNAL = "mig_mode"
# heuristic: the GPUs of a chassis come and are bound one after the other; each binding takes about a second.
SETTLE_S = 3.0
# heuristic: a GPU with a loose contact comes and goes; each count costs all sources the seconds of a process's start.
APART_S = 60.0
_CHANGES = frozenset({EventKind.DEVICE_ADDED, EventKind.DRIVER_BOUND})


class Reenumeration:
    """Decides when to count the GPUs: a while after the last event that changes them.

    The driver's handles to a GPU do not survive its removal or a reload of the driver, so the process that reads the
    GPUs starts again: its tables name GPUs by UUID, whatever address or number they have then. A file of `run_dir`
    has the time of the last count, for the next process of the same boot.
    """

    def __init__(self, clock: Clock, run_dir: Path) -> None:
        self._clock = clock
        self._mark = mark = run_dir / COUNTED_FILE
        self._wanted = run_dir / WANTED_FILE
        self._at_s: float | None = None
        self._not_before_s = _marked_s(mark, clock.monotonic_s()) + APART_S
        self.reason = ""

    def note(self, events: Iterable[Event]) -> None:
        """Record events; a GPU that was bound to another driver than NVIDIA's (a warning) changes nothing here."""
        for event in events:
            if event.kind in _CHANGES and event.severity is Severity.INFO:
                self._want(event.message)

    def look(self) -> None:
        """Take a request of another process to count the GPUs, where there is one."""
        with contextlib.suppress(OSError):
            reason = self._wanted.read_text(encoding="utf-8")
            self._wanted.unlink()
            self._want(reason)

    def _want(self, reason: str) -> None:
        self._at_s = self._clock.monotonic_s() + SETTLE_S
        self.reason = reason

    @property
    def is_due(self) -> bool:
        """True if GPUs were added, the last of them a while ago."""
        at_s = self._at_s
        return at_s is not None and self._clock.monotonic_s() >= max(at_s, self._not_before_s)

    def leave_mark(self) -> None:
        """Record for the next process that the GPUs are counted now."""
        with contextlib.suppress(OSError):  # then the next one may count a little too early
            self._mark.write_text(f"{self._clock.monotonic_s():.3f}", encoding="ascii")


class Recount:
    """Part of the process for slow sources: detects a count by the other one, and requests one for a split GPU."""

    def __init__(self, run_dir: Path) -> None:
        self._mark = run_dir / COUNTED_FILE
        self._wanted = run_dir / WANTED_FILE
        self._counted = self._read_mark()
        self._modes: dict[str, float] = {}

    @property
    def was_done(self) -> bool:
        """True if the GPUs were counted again since this process began: its view of them is outdated."""
        return self._read_mark() != self._counted

    def look_at(self, tables: Iterable[RingTable]) -> None:
        """Request a count where the newest row shows a GPU newly split into instances, or whole again."""
        for table in tables:
            if _MIG_SIGNAL not in table.spec.signals or table.count == 0:
                continue
            frame = table.read(table.count - 1).frame
            modes = frame.signal(_MIG_SIGNAL)[-1:]
            for entity, mode in zip(table.spec.entities * len(modes), modes.ravel().tolist(), strict=True):
                if mode == mode:  # noqa: PLR0124 -- not NaN: one that is lost or not read changed nothing
                    self._see(entity.id, entity.name, mode)

    def _see(self, entity_id: str, name: str, mode: float) -> None:
        before = self._modes.setdefault(entity_id, mode)
        if mode == before:
            return
        self._modes[entity_id] = mode
        reason = f"{name} is {'split into instances' if mode else 'whole again'}"
        try:
            self._wanted.write_text(reason, encoding="utf-8")
        except OSError as err:
            logger.warning("%s, but cannot request a count of the GPUs: %s", reason, err)

    def _read_mark(self) -> str:
        try:
            return self._mark.read_text(encoding="ascii")
        except OSError:
            return ""


def _marked_s(mark: Path, now_s: float) -> float:
    """Return when the GPUs were last counted; long ago without a file, or with one of another boot."""
    try:
        marked_s = float(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return now_s - APART_S
    return marked_s if marked_s <= now_s else now_s - APART_S
