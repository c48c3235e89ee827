"""A clock that stands still until a test moves it."""

from telemetry.clock import NS_PER_S

START_NS = 1_700_000_000 * NS_PER_S


class StandingClock:
    def __init__(self, now_ns: int = START_NS) -> None:
        self.now_ns = now_ns

    def monotonic_s(self) -> float:
        return self.now_ns / NS_PER_S

    def utc_ns(self) -> int:
        return self.now_ns

    def sleep_until(self, monotonic_s: float) -> None:
        self.now_ns = max(self.now_ns, round(monotonic_s * NS_PER_S))

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS_PER_S)
