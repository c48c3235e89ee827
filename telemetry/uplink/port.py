"""Port of the sender to a store: one write, one reply."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from telemetry.store.resolution import Resolution


class WriteStatus(StrEnum):
    """Result of a write, by what the sender must do next."""

    STORED = "stored"
    """All of it is kept."""
    PARTLY = "partly"
    """The store kept the good lines and rejected the bad ones: do not send again."""
    BAD_LINES = "bad_lines"
    """Nothing is kept because some line is bad: send in parts."""
    TOO_LARGE = "too_large"
    """Nothing is kept because the body is too long: send in parts."""
    REFUSED = "refused"
    """The account, the database or the bucket is wrong: keep the data, retry slowly, report it."""
    AWAY = "away"
    """No connection, or the store fails: keep the data, retry soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReply:
    """WriteReply of a store to one write.

    `refused_points` is the number of lines that a `PARTLY` left out, or that a `BAD_LINES` counts as bad; 0 if unknown.
    `retry_after_s` is the wait that the store requested, None without one.
    """

    status: WriteStatus
    reason: str = ""
    refused_points: int = 0
    retry_after_s: float | None = None


class Destination(Protocol):
    """Store that takes line protocol; raises nothing, every failure is a reply."""

    name: str

    def prepare(self) -> WriteReply:
        """Create the database and its retentions where permitted; called before the first write."""
        ...

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:
        """Send encoded lines with stamps in ns and return the reply."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
