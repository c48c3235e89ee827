"""A recorder over a ring and a journal that the test writes, on a clock that the test moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent.recorder.black_box import BlackBox
from agent.recorder.record_follower import RawLineParser, RecordFollower
from agent.recorder.recorder import Recorder, RunFacts
from agent.recorder.recording_folder import RecordingJob
from agent.recorder.row_follower import RowFollower
from agent.recorder.settings import RecorderSettings
from agent.ring.ring import Ring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec
from telemetry.record_journal import Position, RecordJournalReader, RecordJournalWriter
from telemetry.recording import RecordingMeta
from telemetry.records import Cause, Event, EventKind, Finding, FindingStatus, Severity
from tests.agent.fakes import START_NS, FakeClock

NODE = Entity(kind=EntityKind.NODE, key="box", name="box")
SUPPLY = TableSpec(
    name="supply",
    kind=EntityKind.SUPPLY,
    entities=(Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0"),),
    signals=("voltage_v", "current_a"),
)
SETTINGS = RecorderSettings(before_s=10.0, after_s=5.0, longest_s=30.0, flush_s=2.0)
ROW_S = 0.05


@dataclass
class Rig:
    """Rows carry their own number as voltage, so that a test sees which ones a recording has."""

    folder: Path
    settings: RecorderSettings = SETTINGS
    clock: FakeClock = field(default_factory=FakeClock)
    spec: TableSpec = SUPPLY
    started_ns: int = START_NS
    orders: list[RecordingJob] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.ring = a_ring(self.folder / "ring", self.spec)
        self.journal = RecordJournalWriter(self.folder / "guard.jsonl", simulated=True)
        self.box = BlackBox(self.folder / "box", self.settings.box_bytes)
        self.lines = RawLineParser()
        self.recorder = self.a_recorder()

    def a_recorder(self, positions: Mapping[str, Position] | None = None) -> Recorder:
        return Recorder(
            rows=RowFollower(self.folder / "ring"),
            record_follower=RecordFollower(
                {"guard": RecordJournalReader(self.folder / "guard.jsonl", (positions or {}).get("guard"))},
                lines=self.lines,
                source=None,
            ),
            box=self.box,
            clock=self.clock,
            settings=self.settings,
            facts=lambda: RunFacts(
                started_ns=self.started_ns,
                boot="boot",
                meta=RecordingMeta(node="box", simulated=True, config={"node": {"name": "box"}}),
            ),
            submit=self.orders.append,
        )

    def run(self, seconds: float) -> None:
        """Write rows at 20 Hz and let the recorder look twice a second."""
        for _ in range(round(seconds / ROW_S)):
            self.clock.advance(ROW_S)
            table = self.ring.tables[self.spec.name]
            values = np.full(self.spec.shape, float(self.number))
            table.append(self.clock.utc_ns(), values, np.ones(values.shape, dtype=np.bool_))
            self.number += 1
            if self.number % 10 == 0:
                self.recorder.step()

    def numbers(self, job: RecordingJob) -> list[int]:
        """Return the numbers of the rows that a recording has."""
        return [
            int(number)
            for frame in job.contents.frames()
            for number in frame.signal("voltage_v")[:, 0].tolist()
            if number == number  # noqa: PLR0124 -- NaN: a column that came later
        ]


def a_ring(path: Path, spec: TableSpec = SUPPLY) -> Ring:
    topology = Topology(entities=(NODE, *spec.entities), edges=((NODE.id, spec.entities[0].id),))
    return Ring.create(path, [spec], node="box", topology=topology, simulated=True, rows={spec.name: 2000})


def a_finding(time_ns: int, *, status: FindingStatus = FindingStatus.RAISED, number: int = 1) -> Finding:
    return Finding(
        id=f"f-{number}",
        time_ns=time_ns,
        since_ns=time_ns,
        detector="rail_sag",
        cause=Cause.SUPPLY_SAG,
        entity_id="supply:psu0",
        status=status,
        severity=Severity.WARNING,
        score=0.5,
        summary="psu0 sags",
        evidence=(),
    )


def an_xid(time_ns: int, *, severity: Severity = Severity.CRITICAL, kind: EventKind = EventKind.XID) -> Event:
    return Event(
        id=f"xid-{time_ns}",
        time_ns=time_ns,
        kind=kind,
        entity_id="gpu:GPU-1",
        code=79,
        severity=severity,
        message="GPU has fallen off the bus.",
        sources=("kernel_log",),
    )


def span_s(job: RecordingJob) -> float:
    times_ns = [int(stamp) for frame in job.contents.frames() for stamp in frame.time_ns]
    return (max(times_ns) - min(times_ns)) / NS_PER_S
