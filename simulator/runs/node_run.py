"""One node, millisecond by millisecond, into a recording."""

from collections.abc import Callable
from pathlib import Path

from simulator.plant.events import PlantEvent
from simulator.plant.plant import BLOCK_MS
from simulator.runs.description import START_NS, config_of, job_names, told_of, truth_document
from simulator.runs.order import RunOrder
from simulator.runs.output import Draft, drafts
from simulator.runs.recorder import Recorder
from simulator.runs.stream import RowStream
from simulator.runs.summary import RunSummary, Tally
from simulator.runs.topology import entities_of
from simulator.runs.truth import TruthSeries, drops_of, truth_tables
from simulator.sensors.bank import SensorBank
from telemetry.recording import RecordingMeta, header_of

_MS_PER_S = 1000.0
_PROGRESS_MS = 1000


def record_run(
    order: RunOrder, out: Path, *, truth: Path | None = None, progress: Callable[[float], None] = lambda _: None
) -> RunSummary:
    """Simulate a node and write what its sensors showed, and beside it what was true.

    Memory does not grow with the duration. `progress` is told the seconds done, once per simulated second.

    Raises
    ------
    EnvironmentLacksError
        A file cannot be written; nothing is left behind.
    """
    with drafts([out] if truth is None else [out, truth]) as opened:
        return _NodeRun(order, opened[0], opened[1] if truth is not None else None).run(progress)


class _NodeRun:
    """The parts of one run."""

    def __init__(self, order: RunOrder, out: Draft, truth: Draft | None) -> None:
        if out.writer is None:
            raise ValueError("a recording has rows")
        self._order, self._draft, self._truth_draft = order, out, truth
        self._entities = entities_of(order.node, jobs=job_names(order))
        self._bank = SensorBank(order.node, order.scenario, order.seed)
        self._rows = RowStream(out.writer)
        self._recorder = Recorder(order.node, self._entities, self._bank, out=self._rows, start_ns=START_NS)
        self._truth_rows: RowStream | None = None
        self._truth: TruthSeries | None = None
        if truth is not None and truth.writer is not None:
            self._truth_rows = RowStream(truth.writer)
            self._truth = TruthSeries(self._entities, out=self._truth_rows, start_ns=START_NS)
        self._tally = Tally()

    def run(self, progress: Callable[[float], None]) -> RunSummary:
        """Go through the whole duration and end the files."""
        order, bank = self._order, self._bank
        plant = order.plant()
        happened: list[PlantEvent] = []
        for start_ms in range(0, order.duration_ms, BLOCK_MS):
            stretch = plant.advance(BLOCK_MS)
            bank.advance(stretch, plant.state)
            events = plant.take_events()
            happened += events
            self._recorder.take(start_ms, plant.state, plant.settings, events)
            self._tally.take(bank)
            if self._truth is not None:
                self._truth.take(stretch, plant.state)
            if start_ms % _PROGRESS_MS == 0:
                progress(start_ms / _MS_PER_S)
        self._end(happened)
        simulated_s = order.duration_ms / _MS_PER_S
        progress(simulated_s)
        drops = drops_of(happened, order.node, start_ns=START_NS)
        return self._tally.summary(
            simulated_s=simulated_s, rows=self._rows.rows, drops=len(drops), steps=plant.state.steps
        )

    def _end(self, happened: list[PlantEvent]) -> None:
        known = told_of(self._order, happened, tier="a")
        self._rows.flush()
        topology = self._entities.topology
        meta = RecordingMeta(node=self._order.node.name, simulated=True, config=config_of(self._order) | known)
        self._draft.end(header_of(self._recorder.specs, topology=topology, meta=meta))
        if self._truth_draft is None:
            return
        if self._truth_rows is not None:
            self._truth_rows.flush()
            self._truth_draft.end(header_of(truth_tables(self._entities), topology=topology, meta=meta))
        else:
            self._truth_draft.write_text(truth_document(self._order, known, happened))
