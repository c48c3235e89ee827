"""What an actuator refused: every one counted, and said in the log as often as somebody can read."""

import logging
from collections import Counter
from enum import StrEnum

from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# Heuristic: whoever floods the socket fills no disk; the counts go on.
LOG_EVERY_S = 10.0


class Refusal(StrEnum):
    """Why something was refused."""

    PEER = "peer"
    CROWD = "crowd"
    TOO_LONG = "too_long"
    NOT_UNDERSTOOD = "not_understood"
    NOT_ALLOWED = "not_allowed"


class Refusals:
    """Counts refusals by reason."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts = Counter[Refusal]()
        self._said = Counter[Refusal]()
        self._log_at_s: dict[Refusal, float] = {}

    def note(self, refusal: Refusal, words: str) -> None:
        """Count one; the first of a kind is said at once, then at most one line in ten seconds."""
        self._counts[refusal] += 1
        now_s = self._clock.monotonic_s()
        if now_s < self._log_at_s.get(refusal, now_s):
            return
        self._log_at_s[refusal] = now_s + LOG_EVERY_S
        more = self._counts[refusal] - self._said[refusal] - 1
        self._said[refusal] = self._counts[refusal]
        logger.warning("actuator refused a request: %s%s", words, f" (and {more} more of them)" if more else "")

    @property
    def counts(self) -> dict[str, int]:
        """How many there were of each kind since the start."""
        return {refusal.value: self._counts[refusal] for refusal in Refusal}
