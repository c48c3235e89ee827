"""How far long work has come, said on standard error where no bar can be drawn."""

import sys

from telemetry.clock import Clock

_SAY_EVERY_S = 10.0  # heuristic: seldom enough for the log of a build


class ProgressLog:
    """Says a line every ten seconds at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_s = clock.monotonic_s()

    def told(self, words: str) -> None:
        """Take note of what is done."""
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = now_s
            sys.stderr.write(f"railwatch: {words}\n")
