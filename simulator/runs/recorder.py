"""Recording of a run as the agent would have made it: every sensor update, driver events, kernel log lines."""

from collections.abc import Iterable

from analytics import catalogue
from analytics.kernel_log import KernelLogParser, to_event
from simulator.files.node import NodeFile
from simulator.plant.clocks import Settings
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.state import PlantNodeState
from simulator.runs.description import START_NS
from simulator.runs.fast_tables import FastTables
from simulator.runs.slow_tables import SlowTables
from simulator.runs.stream import RowStream
from simulator.runs.topology import NodeEntities
from simulator.sensors.bank import SensorBank
from simulator.served.kernel_lines import KernelMessages
from telemetry.clock import NS_PER_MS
from telemetry.frames import TableSpec
from telemetry.recording_rows import FrameRows, KernelLogRow, moment_rows
from telemetry.records import Event, EventKind, Severity

_LOG = "kmsg"
SLOW_MS = 1000  # the agent's slow group, once a second
# Stamps of a sensor may run ahead of the plant or behind it by its clock's error, at most so much.
HELD_BACK_NS = 100 * NS_PER_MS


class EventRecorder:
    """Turns what happens on a plant into records and lines, each once."""

    def __init__(self, node: NodeFile) -> None:
        self._node = node
        self._voice = KernelMessages(node)
        self._parser = KernelLogParser()
        self._uuids = {slot.pci.removesuffix(".0"): node.gpu_uuid(index) for index, slot in enumerate(node.slots)}
        self._lines = 0
        self._events = 0

    def record_event(self, event: PlantEvent) -> tuple[tuple[Event, ...], tuple[KernelLogRow, ...]]:
        """Return the records and the kernel's lines of one event, in the order in which they are reported."""
        time_ns = START_NS + event.time_ms * NS_PER_MS
        written: list[Event] = []
        lines: list[KernelLogRow] = []
        if event.kind is PlantEventKind.XID and event.gpu is not None and event.code is not None:
            written.append(self._driver_event(time_ns, event.gpu, event.code))
        for line in self._voice.lines(event):
            self._lines += 1
            lines.append(KernelLogRow(time_ns=time_ns, text=line.text))
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


class RunRecorder:
    """Puts what the sensors of a node show into a stream of rows.

    Attributes
    ----------
    specs
        The tables of the recording.
    """

    def __init__(self, node: NodeFile, entities: NodeEntities, bank: SensorBank, *, out: RowStream) -> None:
        self._out = out
        self._fast = FastTables(node, entities, bank, out=out)
        self._slow = SlowTables(node, entities, bank)
        self._slow_rows = {spec.name: FrameRows(spec) for spec in self._slow.specs}
        self._event_recorder = EventRecorder(node)
        self._next_slow_ms = 0
        self.specs: tuple[TableSpec, ...] = (*self._fast.specs, *self._slow.specs)

    def take(self, start_ms: int, state: PlantNodeState, settings: Settings, events: Iterable[PlantEvent]) -> None:
        """Process the block that began at `start_ms`, after the sensors did."""
        self._fast.take(start_ms, state)
        if start_ms >= self._next_slow_ms:
            self._next_slow_ms += SLOW_MS
            if state.powered:
                time_ns = START_NS + state.now_ms * NS_PER_MS
                for frame in self._slow.frames(time_ns, state, settings):
                    self._out.add_rows(self._slow_rows[frame.spec.name].rows(frame))
        for event in events:
            records, lines = self._event_recorder.record_event(event)
            if records or lines:
                self._out.add_rows(moment_rows(records, lines))
        self._out.flush(before_ns=START_NS + state.now_ms * NS_PER_MS - HELD_BACK_NS)
