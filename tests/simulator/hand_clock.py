"""A clock that a test turns by hand; sleeping turns it on."""

START_NS = 1_700_000_000_000_000_000


class HandClock:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.sleeps = 0

    def monotonic_s(self) -> float:
        return self.now_s

    def utc_ns(self) -> int:
        return START_NS + round((self.now_s - 100.0) * 1e9)

    def sleep_until(self, monotonic_s: float) -> None:
        self.sleeps += 1
        self.now_s = max(self.now_s, monotonic_s)
