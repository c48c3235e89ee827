"""Port of the sender to a store: one write, one reply; and the replies of stores that speak HTTP."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from telemetry.rollup import Resolution


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
    """Reply of a store to one write.

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


# A reason is shown on the page and in a log line: the first few hundred characters suffice.
_REASON_CHARACTERS = 300
_DROPPED = re.compile(r"dropped=(\d+)")


def reply_of(status: int, body: str, *, retry_after: str | None = None) -> WriteReply:
    """Return the reply for an HTTP status and the body of the response."""
    if 200 <= status < 300:
        return WriteReply(status=WriteStatus.STORED)
    text = _message(body) or "no reason given"
    reason = f"HTTP {status}: {text[:_REASON_CHARACTERS]}"
    if status == 413:
        return WriteReply(status=WriteStatus.TOO_LARGE, reason=reason)
    if status in (400, 422):
        dropped = _DROPPED.search(text)
        bad = text.count("unable to parse") + (int(dropped[1]) if dropped else 0)
        partly = "partial write" in text
        return WriteReply(
            status=WriteStatus.PARTLY if partly else WriteStatus.BAD_LINES, reason=reason, refused_points=bad
        )
    if status in (408, 429) or (status >= 500 and "retention policy not found" not in text):
        return WriteReply(status=WriteStatus.AWAY, reason=reason, retry_after_s=_seconds(retry_after))
    return WriteReply(status=WriteStatus.REFUSED, reason=reason)


def unreachable(err: Exception) -> WriteReply:
    """Return the reply for a connection that failed or timed out."""
    return WriteReply(status=WriteStatus.AWAY, reason=f"not reached: {err}"[:_REASON_CHARACTERS])


def _message(body: str) -> str:
    try:
        fields = json.loads(body)
    except ValueError:
        return body.strip()
    if not isinstance(fields, dict):
        return body.strip()
    return str(fields.get("error") or fields.get("message") or body).strip()


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None  # a date: our own back-off is good enough
