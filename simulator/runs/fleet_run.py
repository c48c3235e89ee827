"""Node in closed form, over hours to months, into a recording."""

from collections.abc import Callable, Sequence
from pathlib import Path

from simulator.fleet.fleet import Fleet
from simulator.fleet.happenings import Happenings
from simulator.fleet.stretch import FleetStretch
from simulator.plant.events import PlantEvent
from simulator.runs.description import START_NS, meta_of, run_description, truth_document
from simulator.runs.fleet_tables import FleetTables, FleetTruthSeries
from simulator.runs.moments import EventRecorder
from simulator.runs.order import RunOrder, closed_form_step_s
from simulator.runs.summary import RunSummary
from simulator.runs.topology import entities_of
from simulator.runs.truth import truth_tables
from simulator.runs.writing import RecordingFile, TruthFile, run_files
from telemetry.clock import NS_PER_S
from telemetry.recording_rows import moment_rows

_CHUNK_STEPS = 100


def record_long_run(
    order: RunOrder, out: Path, *, truth: Path | None = None, progress: Callable[[float], None] = lambda _: None
) -> RunSummary:
    """Simulate a node step by step in closed form and write its sensors' samples, and beside them what was true.

    Raises
    ------
    EnvironmentLacksError
        A file cannot be written; nothing is left behind.
    """
    with run_files([out], truth) as ((file,), truth_file):
        return _FleetRun(order, file, truth_file).run(progress)


class _FleetRun:
    """The parts of one run."""

    def __init__(self, order: RunOrder, file: RecordingFile, truth_file: TruthFile) -> None:
        self._order, self._file, self._truth_file = order, file, truth_file
        self._entities = entities_of(order.node)
        self._tables = FleetTables(order.node, self._entities)
        self._event_recorder = EventRecorder(order.node, start_ns=START_NS)
        self._truth: FleetTruthSeries | None = None
        if truth_file.series is not None:
            self._truth = FleetTruthSeries(self._entities, out=truth_file.series.rows, start_ns=START_NS)
        self._step_s = closed_form_step_s(order.duration_s)
        self._steps = max(1, round(order.duration_s / self._step_s))

    def run(self, progress: Callable[[float], None]) -> RunSummary:
        """Go through the whole duration and end the files."""
        order = self._order
        fleet = Fleet([order.node], [order.scenario], seed=order.seed, step_s=self._step_s, workload=order.workload)
        fleet.obey(power_limit_w=order.power_limit_w, clock_cap_mhz=order.clock_mhz)
        happened: list[PlantEvent] = []
        happenings = Happenings()
        for first in range(0, self._steps, _CHUNK_STEPS):
            stretch = fleet.advance(min(_CHUNK_STEPS, self._steps - first))
            events = happenings.of(stretch, step_s=self._step_s)
            happened += events
            self._take(stretch, events)
            progress(fleet.time_s)
        happened.sort(key=lambda event: event.time_ms)
        self._end(happened)
        return self._tables.summary(simulated_s=fleet.time_s, rows=self._file.rows.rows)

    def _take(self, stretch: FleetStretch, events: Sequence[PlantEvent]) -> None:
        stream = self._file.rows
        for rows in self._tables.rows(stretch, start_ns=START_NS):
            stream.add_rows(rows)
        for event in events:
            records, lines = self._event_recorder.record_event(event)
            if records or lines:
                stream.add_rows(moment_rows(records, lines))
        until_ns = START_NS + round((stretch.time_s[-1] + self._step_s) * NS_PER_S)
        stream.flush(before_ns=until_ns)
        if self._truth is not None:
            self._truth.take(stretch)

    def _end(self, happened: list[PlantEvent]) -> None:
        known = run_description(self._order, happened, tier="b")
        meta, topology = meta_of(self._order, known), self._entities.topology
        self._file.end(self._tables.specs, topology=topology, meta=meta)
        document = truth_document(self._order, known, happened)
        self._truth_file.end(truth_tables(self._entities), topology=topology, meta=meta, document=document)
