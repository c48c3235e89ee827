"""The loop, closed: plant, sensors, the live guard with its detectors, rules and rails, the live actuator, plant.

Everything but the node is what runs on a real one: the ring, `agent.guard.guard.Guard`, `KnobActuator` with its
write-ahead journal, and the journal through which the guard follows the actuator. They share one process and the
plant's time, so the same order gives the same rehearsal.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.actuation.actuator import KnobActuator
from agent.actuation.knob_log import KnobLog
from agent.guard.guard import Guard
from agent.guard.pipeline import Pipeline, PipelineSettings
from evaluation.rehearsal.knob import PlantClock, PlantClockKnob
from evaluation.rehearsal.sensed import SensedTables
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.plant.state import Stretch
from simulator.runs.description import START_NS, job_names
from simulator.runs.order import RunOrder
from simulator.runs.recorder import EventRecorder
from simulator.runs.topology import entities_of
from simulator.sensors.bank import SensorBank
from telemetry.clock import NS_PER_MS
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Action, Event, EventKind, Record, Severity

# The machine's memory as a folder: the guard's small files, written several times a second, need no disk.
_MEMORY = Path("/dev/shm")  # noqa: S108 -- a fresh private folder is made in it
# The guard wakes with every row of the sampler's fast group, twenty a second by default.
STEP_MS = 50


class RecordSink:
    """Sink of the records that the guard publishes."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, record: Record) -> None:
        """Append a record."""
        self.records.append(record)


class ClosedLoop:
    """Simulated node under one scenario, watched and controlled.

    Parameters
    ----------
    folder
        Where ring and journals lie while it runs; tmpfs is quicker than a disk.

    Attributes
    ----------
    actions
        Everything that the actuator did or refused, in order.
    """

    def __init__(self, order: RunOrder, plant: Plant, settings: PipelineSettings, *, folder: Path) -> None:
        node = order.node
        clock, knob = PlantClock(plant), PlantClockKnob(plant)
        entities = entities_of(node, jobs=job_names(order))
        self._plant = plant
        self._bank = SensorBank(node, order.scenario, order.seed)
        self._event_recorder = EventRecorder(node)
        self._tables = SensedTables(node, entities, self._bank, path=folder / "ring")
        self._hold_journal = KnobLog(folder / "actuator", run_id=str(START_NS))
        self._journal = RecordJournalWriter(folder / "actuator.jsonl", simulated=True)
        self.actions: list[Action] = []
        self._actuator = KnobActuator((knob,), self._hold_journal, clock, sink=self._note)
        self._kept = RecordSink()
        uuids = [node.gpu_uuid(index) for index in range(node.gpu_count)]
        pipeline = Pipeline(
            self._tables.specs,
            entities.topology,
            settings,
            supported_mhz={uuid: knob.supported(uuid) for uuid in uuids},
        )
        self._guard = Guard(
            self._tables.tables,
            pipeline,
            self._actuator,
            self._kept,
            clock,
            snapshot_path=folder / "guard.json",
            actions_path=folder / "actuator.jsonl",
        )
        self._guard.restore()

    @property
    def records(self) -> Sequence[Record]:
        """Findings, incidents, decisions and outcomes, in the order in which the guard published them."""
        return self._kept.records

    @property
    def failures(self) -> int:
        """Orders that failed for an unexpected reason."""
        return self._guard.failures

    def take(self, stretch: Stretch, events: Sequence[PlantEvent]) -> None:
        """Run sensors, guard and actuator over the block that the plant has just simulated."""
        plant, start_ms = self._plant, int(stretch.time_ms[0])
        self._bank.advance(stretch, plant.state)
        self._tables.take(start_ms, plant.state, plant.settings)
        for event in events:
            for record in (*self._event_recorder.record_event(event)[0], *self._begun(event)):
                self._guard.add_event(record)
        if (start_ms + BLOCK_MS) % STEP_MS == 0:
            self._guard.step()
            self._actuator.tick()

    def _begun(self, event: PlantEvent) -> Iterator[Event]:
        """Yield the processes of a job that begins, as the process list of each GPU would show them."""
        if event.kind is not PlantEventKind.JOB_STARTED:
            return
        time_ns = START_NS + event.time_ms * NS_PER_MS
        for index in range(self._plant.node.gpu_count):
            uuid = self._plant.node.gpu_uuid(index)
            yield Event(
                id=f"gpu_process:{uuid}:{index}:0:began:{time_ns}",
                time_ns=time_ns,
                kind=EventKind.GPU_PROCESS,
                entity_id=f"gpu:{uuid}",
                code=None,
                severity=Severity.INFO,
                message=f"a job began to use gpu{index}",
                sources=("nvml",),
            )

    def close(self) -> None:
        """Close ring and journals; the plant keeps its clocks, as the rehearsal is over."""
        self._tables.close()
        self._journal.close()
        self._hold_journal.close()

    def _note(self, action: Action) -> None:
        self.actions.append(action)
        self._journal.append(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """Result of a run with railwatch in the loop; `failures` counts unexpected errors."""

    records: tuple[Record, ...]
    actions: tuple[Action, ...]
    failures: int


def watch(
    order: RunOrder,
    settings: PipelineSettings,
    see: Callable[[Plant, Stretch, tuple[PlantEvent, ...]], None],
    is_over: Callable[[], bool] = lambda: False,
) -> WatchedRun:
    """Run a node with railwatch in the loop until it is over; `see` receives every block before railwatch does."""
    plant = order.plant()
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="railwatch-rehearse-", dir=memory) as folder:
        loop = ClosedLoop(order, plant, settings, folder=Path(folder))
        try:
            for stretch, events in moved(plant, order.duration_ms):
                see(plant, stretch, events)
                loop.take(stretch, events)
                if is_over():
                    break
        finally:
            loop.close()
    return WatchedRun(records=tuple(loop.records), actions=tuple(loop.actions), failures=loop.failures)


def moved(plant: Plant, duration_ms: int) -> Iterator[tuple[Stretch, tuple[PlantEvent, ...]]]:
    """Advance a plant, block by block."""
    for _ in range(0, duration_ms, BLOCK_MS):
        stretch = plant.advance(BLOCK_MS)
        yield stretch, plant.take_events()
