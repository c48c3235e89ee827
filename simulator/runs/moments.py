"""Events as the agent would record them: driver events, kernel log lines and their meaning."""

from analytics import catalogue
from analytics.kernel_log import KernelLogParser, to_event
from simulator.files.node import NodeFile
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.served.kernel_lines import KernelVoice
from telemetry.clock import NS_PER_MS
from telemetry.recording_rows import KernelLine
from telemetry.records import Event, EventKind, Severity

_LOG = "kmsg"


class EventRecorder:
    """Turns what happens on a plant into records and lines, each once."""

    def __init__(self, node: NodeFile, *, start_ns: int) -> None:
        self._node = node
        self._start_ns = start_ns
        self._voice = KernelVoice(node)
        self._parser = KernelLogParser()
        self._uuids = {slot.pci.removesuffix(".0"): node.gpu_uuid(index) for index, slot in enumerate(node.slots)}
        self._lines = 0
        self._events = 0

    def record_event(self, event: PlantEvent) -> tuple[tuple[Event, ...], tuple[KernelLine, ...]]:
        """Return the records and the kernel's lines of one event, in the order in which they are told."""
        time_ns = self._start_ns + event.time_ms * NS_PER_MS
        written: list[Event] = []
        lines: list[KernelLine] = []
        if event.kind is PlantEventKind.XID and event.gpu is not None and event.code is not None:
            written.append(self._driver_event(time_ns, event.gpu, event.code))
        for line in self._voice.lines(event):
            self._lines += 1
            lines.append(KernelLine(time_ns=time_ns, text=line.text))
            written += [
                to_event(found, time_ns=time_ns, uuids=self._uuids, source=_LOG)
                for found in self._parser.feed(self._lines, line.text)
            ]
        return tuple(written), tuple(lines)

    def _driver_event(self, time_ns: int, gpu: int, code: int) -> Event:
        self._events += 1
        uuid = self._node.gpu_uuid(gpu)
        known = catalogue.xid(code)
        return Event(
            id=f"xid:{uuid}:{code}:{time_ns}:{self._events}",
            time_ns=time_ns,
            kind=EventKind.XID,
            entity_id=f"gpu:{uuid}",
            code=code,
            severity=Severity.WARNING if known is None else known.severity,
            message=f"The driver reported Xid {code}",
            sources=("nvml",),
            pci=self._node.slots[gpu].pci,
        )
