"""State of a GPU driver that cannot be read, and the event that reports it."""

from dataclasses import dataclass

from railwatch.wiring.driver_probe import HANGS
from telemetry.clock import NS_PER_S, Clock
from telemetry.records import Event, EventKind, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """Since when the driver cannot be read and how that was noticed; `back_ns` once it can.

    `absent` where there is none, such as before its module is loaded; else it hangs.
    """

    since_ns: int
    why: str
    back_ns: int | None = None
    absent: bool = False


class DriverChangeSource:
    """Event source that reports once that the driver went away, or that it is back."""

    name = "gpu_driver"

    def __init__(self, change: Away | None, *, node: str, clock: Clock) -> None:
        self._news = change
        self._node = node
        self._clock = clock

    def open(self) -> None:
        """Nothing to open."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return the change, once."""
        change, self._news = self._news, None
        if change is None:
            self._clock.sleep_until(self._clock.monotonic_s() + timeout_s)
            return ()
        state, severity, message = _summary(change)
        event = Event(
            id=f"gpu_driver:{self._node}:{change.since_ns}:{state}",
            time_ns=change.back_ns or change.since_ns,
            kind=EventKind.COLLECTOR,
            entity_id=f"node:{self._node}",
            code=None,
            severity=severity,
            message=message,
            sources=("agent",),
        )
        return (event,)

    def close(self) -> None:
        """Nothing to close."""


def _summary(change: Away) -> tuple[str, Severity, str]:
    if change.back_ns is None:
        asked = f"it is probed every {HANGS.longest_s:g} s"
        return "away", Severity.WARNING, f"GPUs are not read: {change.why}; {asked}"
    after = f"after {(change.back_ns - change.since_ns) / NS_PER_S:.0f} s"
    if change.absent:
        return "came", Severity.INFO, f"The GPU driver came {after}, and the GPUs are read now; before: {change.why}"
    return "back", Severity.INFO, f"The GPU driver answers again {after}"
