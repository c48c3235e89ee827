"""Progress of long work as lines on standard error, for output that is not a terminal."""

import sys

from telemetry.clock import Clock

_INTERVAL_S = 10.0  # heuristic: rare enough for the log of a build


class ProgressLog:
    """Progress lines, at most one every ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written_s = clock.monotonic_s()

    def update(self, text: str) -> None:
        """Write a line unless the last one is too recent."""
        now_s = self._clock.monotonic_s()
        if now_s - self._written_s >= _INTERVAL_S:
            self._written_s = now_s
            sys.stderr.write(f"railwatch: {text}\n")
