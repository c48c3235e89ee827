"""What the sender needs of a store: one write, one answer in the sender's words."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from telemetry.store.resolution import Resolution


class Answer(StrEnum):
    """What became of a write, by what the sender must do next."""

    STORED = "stored"
    """All of it is kept."""
    PARTLY = "partly"
    """The store kept the good lines and named the bad ones: do not send again."""
    BAD_LINES = "bad_lines"
    """Nothing is kept because some line is bad: send in parts."""
    TOO_LARGE = "too_large"
    """Nothing is kept because the body is too long: send in parts."""
    REFUSED = "refused"
    """The account, the database or the bucket is wrong: keep the data, try again slowly, say so."""
    AWAY = "away"
    """No connection, or the store is in trouble: keep the data, try again soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer.

    `refused_points` is how many lines a `PARTLY` left out, or a `BAD_LINES` says are bad; 0 where it does not say.
    `retry_after_s` is what the store asked for, None where it did not.
    """

    answer: Answer
    reason: str = ""
    refused_points: int = 0
    retry_after_s: float | None = None


class Destination(Protocol):
    """A store that takes line protocol; raises nothing, every failure is an answer."""

    name: str

    def prepare(self) -> Reply:
        """Make the database and its retentions where that is permitted; called before the first write."""
        ...

    def write(self, resolution: Resolution, body: bytes) -> Reply:
        """Send encoded lines, stamps in ns, and give what became of them."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...
