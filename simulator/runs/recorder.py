"""A run as the agent would have recorded it: every update of every sensor, once, and all that was told."""

from collections.abc import Iterable

from simulator.files.node import NodeFile
from simulator.plant.clocks import Settings
from simulator.plant.events import PlantEvent
from simulator.plant.state import NodeState
from simulator.runs.fast_tables import FastTables
from simulator.runs.moments import EventRecorder
from simulator.runs.slow_tables import SlowTables
from simulator.runs.stream import RowStream
from simulator.runs.topology import NodeEntities
from simulator.sensors.bank import SensorBank
from telemetry.clock import NS_PER_MS
from telemetry.frames import TableSpec
from telemetry.recording_rows import FrameRows, moment_rows

SLOW_MS = 1000  # the agent's slow group, once a second
# Stamps of a sensor may run ahead of the plant or behind it by its clock's error, at most so much.
HELD_BACK_NS = 100 * NS_PER_MS


class Recorder:
    """Puts what the sensors of a node show into a stream of rows.

    Attributes
    ----------
    specs
        The tables of the recording.
    """

    def __init__(
        self, node: NodeFile, entities: NodeEntities, bank: SensorBank, *, out: RowStream, start_ns: int
    ) -> None:
        self._out, self._start_ns = out, start_ns
        self._fast = FastTables(node, entities, bank, out=out, start_ns=start_ns)
        self._slow = SlowTables(node, entities, bank)
        self._slow_rows = {spec.name: FrameRows(spec) for spec in self._slow.specs}
        self._event_recorder = EventRecorder(node, start_ns=start_ns)
        self._next_slow_ms = 0
        self.specs: tuple[TableSpec, ...] = (*self._fast.specs, *self._slow.specs)

    def take(self, start_ms: int, state: NodeState, settings: Settings, events: Iterable[PlantEvent]) -> None:
        """Process the block that began at `start_ms`, after the sensors did."""
        self._fast.take(start_ms, state)
        if start_ms >= self._next_slow_ms:
            self._next_slow_ms += SLOW_MS
            if state.powered:
                time_ns = self._start_ns + state.now_ms * NS_PER_MS
                for frame in self._slow.frames(time_ns, state, settings):
                    self._out.add_rows(self._slow_rows[frame.spec.name].rows(frame))
        for event in events:
            records, lines = self._event_recorder.record_event(event)
            if records or lines:
                self._out.add_rows(moment_rows(records, lines))
        self._out.flush(before_ns=self._start_ns + state.now_ms * NS_PER_MS - HELD_BACK_NS)
