"""Event source over the Xids that the driver reports through NVML."""

from collections.abc import Callable

from agent.driver.port import GpuEvents, GpuIdentity
from telemetry.clock import Clock
from telemetry.records import Event, EventKind, Severity

# The driver reports 999 where it does not know the Xid (nvml.h, NVML_EVENT_XID_CRITICAL_ERROR data).
_UNKNOWN_XID = 999


class DriverEvents:
    """An event source over `GpuEvents`. A lost GPU raises DeviceLostError; the caller then backs off."""

    name = "driver_events"

    def __init__(
        self,
        events: GpuEvents,
        gpus: tuple[GpuIdentity, ...],
        *,
        clock: Clock,
        severity_of: Callable[[int], Severity] = lambda _: Severity.WARNING,
    ) -> None:
        self._events = events
        self._pci = {gpu.uuid: gpu.pci for gpu in gpus}
        self._clock = clock
        self._severity_of = severity_of
        self._count = 0

    def open(self) -> None:
        """Do nothing: the driver registers at the first wait."""

    def close(self) -> None:
        """Do nothing: the driver belongs to the caller."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return the Xids reported within the time-out."""
        return tuple(self._event(event.uuid, event.code) for event in self._events.wait(timeout_s))

    def _event(self, uuid: str | None, code: int) -> Event:
        time_ns = self._clock.utc_ns()
        self._count += 1
        text = "an Xid without a code" if code == _UNKNOWN_XID else f"Xid {code}"
        return Event(
            id=f"xid:{uuid or 'unknown'}:{code}:{time_ns}:{self._count}",
            time_ns=time_ns,
            kind=EventKind.XID,
            entity_id=None if uuid is None else f"gpu:{uuid}",
            code=code,
            severity=self._severity_of(code),
            message=f"The driver reported {text}",
            sources=("nvml",),
            pci=None if uuid is None else self._pci.get(uuid),
        )
