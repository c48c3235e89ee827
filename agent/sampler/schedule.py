"""Absolute deadlines: the n-th tick is due at start + n periods, however long the ticks before took."""

import math
import threading
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from telemetry.clock import Clock
from telemetry.frames import FloatArray

# How long a stop may have to wait for a sleeping thread.
_LONGEST_SLEEP_S = 0.2


class Timetable(Protocol):
    """Times of a collector's reads. One thread at a time."""

    @property
    def deadline_s(self) -> float:
        """Time of the next tick, on the monotonic clock."""
        ...

    @property
    def period_s(self) -> float:
        """The time from tick to tick that is aimed at now."""
        ...

    def restart(self, start_s: float) -> None:
        """Start again at that time, after its thread was replaced."""
        ...

    def saw(self, began_s: float, ended_s: float, fresh: bytes, values: FloatArray) -> None:
        """Record a read between these times: which cells are fresh, and the row."""
        ...

    def advance(self, now_s: float) -> int:
        """Move on to a tick after now; return how many were missed, which are skipped."""
        ...


@dataclass(slots=True, kw_only=True)
class Schedule:
    """Deadlines on the monotonic clock.

    Attributes
    ----------
    period_s, start_s
        Tick n is due at ``start_s + n * period_s``.
    tick
        The number of the next tick.
    """

    period_s: float
    start_s: float
    tick: int = 0

    @property
    def deadline_s(self) -> float:
        """Time of the next tick."""
        return self.start_s + self.tick * self.period_s

    def restart(self, start_s: float) -> None:
        """Count from that time on."""
        self.start_s, self.tick = start_s, 0

    def saw(self, began_s: float, ended_s: float, fresh: bytes, values: FloatArray) -> None:
        """Do nothing: the ticks are fixed."""

    def advance(self, now_s: float) -> int:
        """Move on to the first tick after now; return how many were missed, which are skipped."""
        next_tick = max(self.tick + 1, math.floor((now_s - self.start_s) / self.period_s) + 1)
        missed = next_tick - self.tick - 1
        self.tick = next_tick
        return missed


@runtime_checkable
class InterruptibleClock(Protocol):
    """A clock that a stop wakes."""

    def wait_until(self, monotonic_s: float, stop: threading.Event) -> None:
        """Return at that monotonic time, or as soon as `stop` is set."""
        ...


def wait_until(deadline_s: float, clock: Clock, stop: threading.Event) -> bool:
    """Wait for a tick; return False once the thread is to end."""
    now_s = clock.monotonic_s()
    while now_s < deadline_s:
        if stop.is_set():
            return False
        if deadline_s - now_s <= _LONGEST_SLEEP_S:  # a sleep is the more exact one
            clock.sleep_until(deadline_s)
        elif isinstance(clock, InterruptibleClock):
            clock.wait_until(deadline_s, stop)
        else:
            clock.sleep_until(now_s + _LONGEST_SLEEP_S)
        now_s = clock.monotonic_s()
    return not stop.is_set()
