"""Pace of the actuators: a rate limit, so that no storm of incidents floods a scheduler, and pauses between retries."""

from threading import Lock

from telemetry.clock import NS_PER_S

# heuristic: a node sends a handful of requests at once, and a scheduler of thousands of nodes answers some hundred
# requests a second in all.
WRITES_PER_S = 1.0
BURST = 10.0
# heuristic: a controller that restarts is back within a minute.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class RateLimit:
    """Token bucket; any thread may take from it. Time is an argument."""

    def __init__(self, *, per_s: float = WRITES_PER_S, burst: float = BURST) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_s: float | None = None
        self._lock = Lock()

    def take(self, now_s: float) -> float:
        """Take one write and return 0; if there is none, take nothing and return the seconds until there is one."""
        with self._lock:
            if self._at_s is not None:  # two threads may call in another order than they read the clock
                self._left = min(self._burst, self._left + max(0.0, now_s - self._at_s) * self._per_s)
            self._at_s = now_s if self._at_s is None else max(now_s, self._at_s)
            if self._left >= 1.0:
                self._left -= 1.0
                return 0.0
            return (1.0 - self._left) / self._per_s


def pause_s(tries: int) -> float:
    """Return the pause after that many failed attempts."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(max(0, tries - 1), 16))


def is_due(due_ns: int, now_ns: int) -> bool:
    """Return True if work is due; a time further away than any pause was set before the clock was set back."""
    return not 0 < due_ns - now_ns <= LONGEST_PAUSE_S * NS_PER_S
