"""Refused requests of an actuator: all are counted, the log is rate-limited."""

import logging
from collections import Counter
from enum import StrEnum

from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# heuristic: a client that floods the socket must not fill the disk; the counts go on.
LOG_EVERY_S = 10.0


class Refusal(StrEnum):
    """Reason of a refusal."""

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
        self._logged = Counter[Refusal]()
        self._log_at_s: dict[Refusal, float] = {}

    def note(self, refusal: Refusal, text: str) -> None:
        """Count a refusal; log the first of a kind at once, then at most one line in ten seconds."""
        self._counts[refusal] += 1
        now_s = self._clock.monotonic_s()
        if now_s < self._log_at_s.get(refusal, now_s):
            return
        self._log_at_s[refusal] = now_s + LOG_EVERY_S
        more = self._counts[refusal] - self._logged[refusal] - 1
        self._logged[refusal] = self._counts[refusal]
        logger.warning("actuator refused a request: %s%s", text, f" ({more} more since the last line)" if more else "")

    @property
    def counts(self) -> dict[str, int]:
        """Refusals of each kind since the start."""
        return {refusal.value: self._counts[refusal] for refusal in Refusal}
