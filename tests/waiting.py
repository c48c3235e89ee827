"""Waiting for what a test expects, however slow the machine is, and time that leaps where a limit has to be over.

A machine that does much else may hold any thread up for seconds. What is awaited has `LIMIT_S`; what has to take too
long does so because the test lets the time leap, not because it is quick enough to be measured.
"""

import threading
from collections.abc import Callable

from telemetry.clock import NS_PER_S, SystemClock

LIMIT_S = 60.0
_LOOK_EVERY_S = 0.005
_REAL = SystemClock()


def wait_for(condition: Callable[[], object], what: str = "it", *, within_s: float = LIMIT_S) -> None:
    """Return as soon as the condition holds; AssertionError where it does not in time."""
    end_s = _REAL.monotonic_s() + within_s
    while not condition():
        assert _REAL.monotonic_s() < end_s, f"did not come true within {within_s:g} s: {what}"
        _REAL.sleep_until(_REAL.monotonic_s() + _LOOK_EVERY_S)


class LeapingClock:
    """The machine's own time, ahead by what a test let it leap."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._sleepers: set[int] = set()

    def monotonic_s(self) -> float:
        return _REAL.monotonic_s() + self._ahead_s

    def utc_ns(self) -> int:
        return _REAL.utc_ns() + round(self._ahead_s * NS_PER_S)

    def sleep_until(self, monotonic_s: float) -> None:
        """Sleep in short naps: a leap ends it."""
        self._sleepers.add(threading.get_ident())
        while (left_s := monotonic_s - self.monotonic_s()) > 0:
            _REAL.sleep_until(_REAL.monotonic_s() + min(left_s, _LOOK_EVERY_S))
        self._sleepers.discard(threading.get_ident())

    @property
    def is_slept_on(self) -> bool:
        """True while a caller sleeps on it: a caller that waits up to a limit has read the time when its wait began."""
        return bool(self._sleepers)

    def leap(self, seconds: float) -> None:
        self._ahead_s += seconds

    def leap_beside(self, seconds: float, at_work: Callable[[], float]) -> None:
        """Leap in steps, and let the thread that counts `at_work` up go on between them: no step is too long for it."""
        for _ in range(10):
            self.leap(seconds / 10)
            before = at_work()
            wait_for(lambda: at_work() >= before + 2, "the others go on")  # noqa: B023 -- called in this turn alone

    def leap_once(self, condition: Callable[[], object], seconds: float) -> None:
        """Jump in time as soon as the condition holds, while the test waits for something else."""

        def watch() -> None:
            wait_for(condition, "the leap's condition")
            self.leap(seconds)

        threading.Thread(target=watch, name="leap", daemon=True).start()
