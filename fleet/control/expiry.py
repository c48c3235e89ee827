"""Certificates and tokens end: told every day of the last month, before nobody listens any more."""

from dataclasses import dataclass

from telemetry.clock import NS_PER_S
from telemetry.records import Event, EventKind, Severity

DAY_NS = 86_400 * NS_PER_S
# Heuristic: a month, so that it is seen in whatever meeting comes next.
WARN_DAYS = 30


@dataclass(slots=True, kw_only=True)
class Expiry:
    """What ends when, and on which day it was told last."""

    until_ns: int
    what: str
    entity_id: str | None = None
    _told_day: int | None = None

    def days_left(self, now_ns: int) -> int:
        """Return the whole days that are left, below 0 where it is over."""
        return (self.until_ns - now_ns) // DAY_NS

    def news(self, now_ns: int) -> Event | None:
        """Return what is to be told today, None where nothing is."""
        left, today = self.days_left(now_ns), now_ns // DAY_NS
        if left >= WARN_DAYS or today == self._told_day:
            return None
        self._told_day = today
        words = "is over" if left < 0 else f"ends in {left} days"
        return Event(
            id=f"control:expiry:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.CONTROL,
            entity_id=self.entity_id,
            code=None,
            severity=Severity.WARNING,
            message=f"{self.what} {words}; railwatch fleet ca makes it anew, and a restart takes it",
            sources=("control",),
        )
