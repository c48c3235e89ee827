"""Events of the GPU driver's messages: Xids that it reports through NVML, and lines in logs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from agent.collectors.events.kernel_log import KernelLine
from agent.driver.port import GpuEvents
from analytics.kernel_log import KernelEvent, KernelLogParser, to_event
from telemetry.clock import Clock
from telemetry.gpu import GpuIdentity
from telemetry.records import Event, EventKind, Severity

# The driver reports 999 where it does not know the Xid (nvml.h, NVML_EVENT_XID_CRITICAL_ERROR data).
_UNKNOWN_XID = 999


class DriverLineParser:
    """A `LineParser` over the patterns of `analytics.kernel_log`.

    `log` names this log in the ids of events: a boot id, or a path.
    """

    def __init__(self, gpus: Iterable[GpuIdentity], *, log: str) -> None:
        self._parser = KernelLogParser()
        self._uuids = uuids_by_slot(gpus)
        self._log = log
        self._lines = 0

    @property
    def unparsed(self) -> int:
        """Driver lines so far that match no pattern."""
        return self._parser.unparsed_count

    def parse(self, line: KernelLine) -> tuple[Event, ...]:
        """Return the events that this line starts or completes; mostly none."""
        self._lines += 1
        number = self._lines if line.sequence is None else line.sequence
        return tuple(
            to_event(event, time_ns=line.time_ns, uuids=self._uuids, source=self._log)
            for event in self._parser.feed(number, line.text)
            if opens_report(event)
        )


def uuids_by_slot(gpus: Iterable[GpuIdentity]) -> dict[str, str]:
    """Return the UUIDs of GPUs by their PCI address without function digit (``0000:3b:00``)."""
    return {gpu.pci.rpartition(".")[0]: gpu.uuid for gpu in gpus}


def opens_report(event: KernelEvent) -> bool:
    """Return True for an event of its own, False for a line of detail that follows an SXid."""
    return event.kind is not EventKind.SXID or event.opens_report


def event_at(place: str, event: KernelEvent, *, time_ns: int, uuids: Mapping[str, str], log: str) -> Event:
    """Return the event of a message in a log other than the kernel's; its place there identifies it."""
    unnumbered = replace(event, line=0, report_line=0)
    return replace(to_event(unnumbered, time_ns=time_ns, uuids=uuids, source=place), sources=(log,))


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
