"""Port to the clock: monotonic time for intervals, UTC for timestamps.

Pure code never reads a clock; its callers pass `now_s` or `now_ns`.
"""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Clock(Protocol):
    """Source of time."""

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start; never goes back."""
        ...

    def utc_ns(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC; may step."""
        ...

    def sleep_until(self, monotonic_s: float) -> None:
        """Return at that monotonic time, or at once if it has passed."""
        ...


class SystemClock:
    """Clock of the machine.

    The two readings are the functions of the interpreter, without a method around them: a tick calls them dozens of
    times.
    """

    monotonic_s = staticmethod(time.monotonic)  # noqa: TID251 -- the one real clock
    utc_ns = staticmethod(time.time_ns)  # noqa: TID251 -- the one real clock

    def sleep_until(self, monotonic_s: float) -> None:
        """Return at that monotonic time, or at once if it has passed."""
        delay_s = monotonic_s - time.monotonic()  # noqa: TID251 -- the one real clock
        if delay_s > 0:
            time.sleep(delay_s)  # noqa: TID251 -- the one real clock

    def wait_until(self, monotonic_s: float, stop: threading.Event) -> None:
        """Return at that monotonic time, or as soon as `stop` is set."""
        stop.wait(max(0.0, monotonic_s - time.monotonic()))  # noqa: TID251 -- the one real clock


def iso_utc(time_ns: int) -> str:
    """Return a UTC stamp in ISO 8601 with microseconds, as in ``2026-01-31T12:00:00.000000Z``."""
    whole_s, rest_ns = divmod(time_ns, NS_PER_S)
    stamp = datetime.fromtimestamp(whole_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{stamp}.{rest_ns // 1000:06d}Z"
