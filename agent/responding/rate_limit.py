"""Rate limit of writes: a token bucket, so that a storm of incidents does not flood a scheduler."""

from threading import Lock

# heuristic: a node sends a handful of requests at once, and a scheduler of thousands of nodes answers some hundred
# requests a second in all.
WRITES_PER_S = 1.0
BURST = 10.0


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
