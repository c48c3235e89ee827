"""A guard over a real ring and a real actuator server on a fake knob; one clock that the test moves."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from agent.actuation.client import ActuatorClient, NonBlockingClient
from agent.actuation.limits import ActuatorSettings
from agent.actuation.server import serve_actuator
from agent.guard.guard import Guard
from agent.guard.learnt_file import LearntFile
from agent.guard.pipeline import Pipeline
from agent.guard.reflex import Reflex
from agent.ring.ring import Ring
from analytics.detectors.supply_limits import RailSagLimits
from telemetry.record_journal import RecordJournalReader, RecordJournalWriter
from telemetry.records import Action, ActionState, Record
from tests.agent.fakes import FakeClock, FakeKnob
from tests.agent.guard.box import SPECS, TOPOLOGY, WEAK_OHM, Box, make_pipeline
from tests.waiting import LIMIT_S


@dataclass
class Records:
    """A sink that a test reads."""

    records: list[Record] = field(default_factory=list)

    def append(self, record: Record) -> None:
        self.records.append(record)


class Rig:
    """`tick` lets a row come; the actuator runs in a thread until `stop_actuator`."""

    def __init__(self, folder: Path, *, has_reflex: bool = False) -> None:
        self.folder = folder
        self.has_reflex = has_reflex
        self.clock = FakeClock()
        self.knob = FakeKnob()
        self.box = Box(clock_mhz=self.knob.settings.get)
        self.sink = Records()
        self.suspicions = 0
        self.ring = Ring.create(
            folder / "ring",
            SPECS,
            node="node0",
            topology=TOPOLOGY,
            simulated=True,
            rows={spec.name: 400 for spec in SPECS},
        )
        self.client = ActuatorClient(folder / "run" / "actuator.sock", timeout_s=LIMIT_S)
        self.line = NonBlockingClient(folder / "run" / "actuator.sock")
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self.start_actuator()
        self.start_guard()

    @property
    def journal_path(self) -> Path:
        return self.folder / "actuator.jsonl"

    def start_guard(self, pipeline: Pipeline | None = None) -> None:
        """Start a guard as its process does, going on from what an earlier one left."""
        self.pipeline = pipeline or make_pipeline()
        self.reflex = Reflex(SPECS, self.line, self.clock, limits=RailSagLimits()) if self.has_reflex else None
        self.learnt = LearntFile(self.folder / "learnt", self.clock)
        self.guard = Guard(
            self.ring.tables,
            self.pipeline,
            self.client,
            self.sink,
            self.clock,
            snapshot_path=self.folder / "guard.json",
            actions_path=self.journal_path,
            events_path=self.folder / "slow.jsonl",
            person_path=self.folder / "person.jsonl",
            baselines_path=self.folder / "baselines.json",
            learnt=self.learnt,
            reflex=self.reflex,
            on_suspicion=self._note_suspicion,
        )
        self.guard.restore()

    def _note_suspicion(self) -> None:
        self.suspicions += 1

    def start_actuator(self) -> None:
        stop, ready = threading.Event(), threading.Event()
        journal = RecordJournalWriter(self.journal_path)

        def serve() -> None:
            serve_actuator(
                lambda: (self.knob,),
                self.folder / "run" / "actuator.sock",
                self.folder / "state",
                journal.append,
                self.clock,
                settings=ActuatorSettings(),
                run_id="run",
                stop=stop,
                ready=ready.set,
            )
            journal.close()

        self._stop, self._thread = stop, threading.Thread(target=serve)
        self._thread.start()
        assert ready.wait(LIMIT_S)

    def stop_actuator(self) -> None:
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join(LIMIT_S)
            assert not self._thread.is_alive()
            self._stop = None

    def close(self) -> None:
        self.learnt.wait(LIMIT_S)
        self.client.close()
        self.line.close()
        self.stop_actuator()
        self.ring.close()

    def row(self) -> None:
        """Add a row that the guard has not read yet."""
        self.clock.advance(0.05)
        self.box.time_ns = self.clock.utc_ns() - 50_000_000
        self.box.append_to(self.ring)

    def tick(self, rows: int = 1) -> None:
        for _ in range(rows):
            self.row()
            self.guard.step()

    def sag(self) -> None:
        """Make the rail sag until the guard has acted."""
        self.tick(40)
        self.box.resistance_ohm = WEAK_OHM
        self.tick(2)

    @property
    def incident_id(self) -> str:
        return next(iter(self.pipeline._incidents))

    def capped(self) -> set[float | None]:
        return set(self.knob.settings.values())

    def journal(self) -> list[Action]:
        return [record for record in RecordJournalReader(self.journal_path).read() if isinstance(record, Action)]

    def states(self) -> list[ActionState]:
        return [action.state for action in self.journal()]
