"""HTTP responses of the InfluxDB family as replies to the sender.

The servers differ: InfluxDB 1.x keeps the good lines of a batch and answers 400 ``partial write: ... dropped=N``,
where N leaves out lines that did not parse, each named as ``unable to parse``; 2.x keeps nothing on a line that does
not parse, and answers 422 on a conflict of types; 1.x calls a retention policy that is missing an error of its own
(500).
"""

import json
import re

from telemetry.uplink.port import WriteReply, WriteStatus

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
