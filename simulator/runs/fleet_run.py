"""One node in closed form, over hours to months, into a recording."""

from collections.abc import Callable
from pathlib import Path

from simulator.fleet.fleet import Fleet
from simulator.fleet.losses import Drop
from simulator.fleet.stretch import FleetStretch
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.runs.description import START_NS, config_of, told_of, truth_document
from simulator.runs.fleet_tables import FleetTables, FleetTruthSeries
from simulator.runs.moments import Teller
from simulator.runs.order import RunOrder
from simulator.runs.output import Draft, drafts
from simulator.runs.stream import RowStream
from simulator.runs.summary import RunSummary
from simulator.runs.topology import entities_of
from simulator.runs.truth import truth_tables
from telemetry.clock import NS_PER_S
from telemetry.recording import RecordingMeta, header_of
from telemetry.recording_rows import moment_rows

# Steps by duration: about a thousand to ten thousand of them; the closed form holds from a minute to an hour.
_STEPS_S = ((86_400.0, 60.0), (14 * 86_400.0, 600.0), (float("inf"), 3600.0))
_CHUNK_STEPS = 100
_MS_PER_S = 1000.0
_XID_BUS_DROP = 79
_XID_AFTER_MS = 1000  # assumption: the middle of the 0.1 to 2 s of the millisecond tier


def record_long_run(
    order: RunOrder, out: Path, *, truth: Path | None = None, progress: Callable[[float], None] = lambda _: None
) -> RunSummary:
    """Simulate a node step by step in closed form and write its sensors' samples, and beside them what was true.

    Raises
    ------
    EnvironmentLacksError
        A file cannot be written; nothing is left behind.
    """
    with drafts([out] if truth is None else [out, truth]) as opened:
        return _FleetRun(order, opened[0], opened[1] if truth is not None else None).run(progress)


class _FleetRun:
    """The parts of one run."""

    def __init__(self, order: RunOrder, out: Draft, truth: Draft | None) -> None:
        if out.writer is None:
            raise ValueError("a recording has rows")
        self._order, self._draft, self._truth_draft = order, out, truth
        self._entities = entities_of(order.node)
        self._rows = RowStream(out.writer)
        self._tables = FleetTables(order.node, self._entities)
        self._teller = Teller(order.node, start_ns=START_NS)
        self._truth_rows: RowStream | None = None
        self._truth: FleetTruthSeries | None = None
        if truth is not None and truth.writer is not None:
            self._truth_rows = RowStream(truth.writer)
            self._truth = FleetTruthSeries(self._entities, out=self._truth_rows, start_ns=START_NS)
        step_s = next(step_s for longest_s, step_s in _STEPS_S if order.duration_s <= longest_s)
        self._step_s = min(step_s, order.duration_s)
        self._steps = max(1, round(order.duration_s / self._step_s))

    def run(self, progress: Callable[[float], None]) -> RunSummary:
        """Go through the whole duration and end the files."""
        order = self._order
        fleet = Fleet([order.node], [order.scenario], seed=order.seed, step_s=self._step_s, workload=order.workload)
        fleet.obey(power_limit_w=order.power_limit_w, clock_cap_mhz=order.clock_mhz)
        happened: list[PlantEvent] = []
        for first in range(0, self._steps, _CHUNK_STEPS):
            stretch = fleet.advance(min(_CHUNK_STEPS, self._steps - first))
            events = [event for drop in stretch.drops for event in _told(drop)]
            happened += events
            self._take(stretch, events)
            progress(fleet.time_s)
        happened.sort(key=lambda event: event.time_ms)
        self._end(happened)
        return self._tables.summary(simulated_s=fleet.time_s, rows=self._rows.rows)

    def _take(self, stretch: FleetStretch, events: list[PlantEvent]) -> None:
        for rows in self._tables.rows(stretch, start_ns=START_NS):
            self._rows.add_rows(rows)
        for event in events:
            records, lines = self._teller.tell(event)
            if records or lines:
                self._rows.add_rows(moment_rows(records, lines))
        until_ns = START_NS + round((stretch.time_s[-1] + self._step_s) * NS_PER_S)
        self._rows.flush(before_ns=until_ns)
        if self._truth is not None:
            self._truth.take(stretch)

    def _end(self, happened: list[PlantEvent]) -> None:
        known = told_of(self._order, happened, tier="b")
        self._rows.flush()
        meta = RecordingMeta(node=self._order.node.name, simulated=True, config=config_of(self._order) | known)
        topology = self._entities.topology
        self._draft.end(header_of(self._tables.specs, topology=topology, meta=meta))
        if self._truth_draft is None:
            return
        if self._truth_rows is not None:
            self._truth_rows.flush()
            self._truth_draft.end(header_of(truth_tables(self._entities), topology=topology, meta=meta))
        else:
            self._truth_draft.write_text(truth_document(self._order, known, happened))


def _told(drop: Drop) -> tuple[PlantEvent, PlantEvent]:
    """Give what the log of a node says of a loss that the closed form only counts."""
    time_ms = round(drop.time_s * _MS_PER_S)
    return (
        PlantEvent(time_ms=time_ms, kind=PlantEventKind.GPU_LOST, gpu=drop.gpu),
        PlantEvent(time_ms=time_ms + _XID_AFTER_MS, kind=PlantEventKind.XID, gpu=drop.gpu, code=_XID_BUS_DROP),
    )
