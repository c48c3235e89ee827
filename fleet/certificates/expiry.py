"""Expiry of certificates and tokens: a warning every day of the last month."""

from dataclasses import dataclass

from telemetry.clock import NS_PER_S
from telemetry.records import Event, EventKind, Severity

DAY_NS = 86_400 * NS_PER_S
# heuristic: a month leaves time to plan the renewal.
WARN_DAYS = 30


@dataclass(slots=True, kw_only=True)
class Expiry:
    """Expiry of one certificate or token, and the day of the last warning."""

    until_ns: int
    what: str
    entity_id: str | None = None
    _warned_day: int | None = None

    def days_left(self, now_ns: int) -> int:
        """Return the whole days that are left, below 0 after the expiry."""
        return (self.until_ns - now_ns) // DAY_NS

    def due_warning(self, now_ns: int) -> Event | None:
        """Return the warning of today, None where none is due."""
        left, today = self.days_left(now_ns), now_ns // DAY_NS
        if left >= WARN_DAYS or today == self._warned_day:
            return None
        self._warned_day = today
        state = "has expired" if left < 0 else f"expires in {left} days"
        return Event(
            id=f"control:expiry:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.CONTROL,
            entity_id=self.entity_id,
            code=None,
            severity=Severity.WARNING,
            message=f"{self.what} {state}; issue a new one with railwatch fleet ca and restart",
            sources=("control",),
        )
