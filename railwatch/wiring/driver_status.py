"""What a run knows of a GPU driver that cannot be read, and the event that tells of it."""

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


class DriverNews:
    """An event source that tells once that the driver went away, or that it is back."""

    name = "gpu_driver"

    def __init__(self, news: Away | None, *, node: str, clock: Clock) -> None:
        self._news = news
        self._node = node
        self._clock = clock

    def open(self) -> None:
        """Nothing to open."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return the news, once."""
        news, self._news = self._news, None
        if news is None:
            self._clock.sleep_until(self._clock.monotonic_s() + timeout_s)
            return ()
        state, severity, message = _told(news)
        event = Event(
            id=f"gpu_driver:{self._node}:{news.since_ns}:{state}",
            time_ns=news.back_ns or news.since_ns,
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


def _told(news: Away) -> tuple[str, Severity, str]:
    if news.back_ns is None:
        asked = f"it is asked again every {HANGS.longest_s:g} s"
        return "away", Severity.WARNING, f"GPUs are not read: {news.why}; {asked}"
    after = f"after {(news.back_ns - news.since_ns) / NS_PER_S:.0f} s"
    if news.absent:
        return "came", Severity.INFO, f"The GPU driver came {after}, and the GPUs are read now; before: {news.why}"
    return "back", Severity.INFO, f"The GPU driver answers again {after}"
