"""Node in closed form, over hours to months, into a recording."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from simulator.files.node import NodeFile
from simulator.fleet.events import FleetEvents
from simulator.fleet.fleet import Fleet
from simulator.fleet.stretch import FleetStretch
from simulator.plant.events import PlantEvent
from simulator.plant.state import CountArray
from simulator.runs.description import START_NS, meta_of, places_of, run_description, truth_document, truth_tables
from simulator.runs.order import RunOrder, closed_form_step_s
from simulator.runs.output import RecordingFile, TruthFile, run_files
from simulator.runs.recorder import EventRecorder
from simulator.runs.stream import RowStream
from simulator.runs.summary import RunSummary, RunTally
from simulator.runs.topology import NodeEntities, entities_of
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.recording_rows import FrameRows, RecordingRows, moment_rows

_SUPPLY = {"voltage_v": "rail_voltage_v", "current_a": "rail_current_a"}
_NODE = {"inlet_temp_c": "inlet_temp_c", "rail_voltage_v": "bmc_rail_voltage_v"}
_CHUNK_STEPS = 100


class FleetTables:
    """The tables of one node, all read at the samples of a step; what is never there is left out.

    Attributes
    ----------
    specs
        The tables.
    """

    def __init__(self, node: NodeFile, entities: NodeEntities) -> None:
        tables: list[tuple[str, tuple[Entity, ...], dict[str, str]]] = [
            ("gpu_fast", entities.gpus, {"power_w": "gpu_power_w", "sm_clock_mhz": "gpu_clock_mhz"}),
            ("gpu_slow", entities.gpus, {"gpu_temp_c": "gpu_temp_c", "hbm_temp_c": "hbm_temp_c"}),
            ("gpu_bus", entities.gpus, {"pci_present": "present"}),
        ]
        if node.sensors.rail is not None:
            tables.append(("supply", entities.supplies, _SUPPLY))
            tables.append(("supply_slow", entities.supplies, {"joint_temp_c": "joint_temp_c"}))
        if node.sensors.inlet is not None or node.sensors.bmc is not None:
            tables.append(("node", (entities.node,), _NODE))
        self._fields = [list(fields.values()) for *_, fields in tables]
        self.specs = tuple(
            TableSpec(name=name, kind=members[0].kind, entities=members, signals=tuple(fields))
            for name, members, fields in tables
        )
        self._rows = [FrameRows(spec) for spec in self.specs]
        self._inlet = "inlet_temp_c" if node.sensors.inlet is not None else "bmc_inlet_temp_c"
        self._tally = RunTally()
        self._drops, self._steps = 0, 0.0

    def rows(self, stretch: FleetStretch) -> Iterator[RecordingRows]:
        """Yield the rows of some steps, table by table."""
        offsets_s = stretch.time_s[:, None] + stretch.sample_offset_s
        time_ns = START_NS + np.rint(offsets_s.ravel() * NS_PER_S).astype(np.int64)
        for spec, fields, rows in zip(self.specs, self._fields, self._rows, strict=True):
            columns = [self._column(stretch, field, len(time_ns), len(spec.entities)) for field in fields]
            values = np.stack(columns, axis=2)
            fresh = ~np.isnan(values) if spec.name in ("gpu_fast", "supply") else np.zeros(values.shape, dtype=np.bool_)
            yield rows.rows(Frame(spec=spec, time_ns=time_ns, values=values, fresh=fresh))
        self._tally.power.take(stretch.samples.gpu_power_w)
        self._tally.rail.take(stretch.samples.rail_voltage_v)
        self._drops += len(stretch.drops)
        step_s = float(stretch.sample_offset_s.sum())  # a quarter and three quarters of a step
        self._steps += float(stretch.truth.steps_per_s.sum()) * step_s

    def summary(self, *, simulated_s: float, rows: int) -> RunSummary:
        """Return what the rows so far show."""
        return self._tally.summary(
            tier="b", simulated_s=simulated_s, rows=rows, drops=self._drops, steps=int(self._steps)
        )

    def _column(self, stretch: FleetStretch, field: str, n_times: int, n_entities: int) -> FloatArray:
        """Return one field of the only node, ``(n_times, n_entities)``."""
        if field == "present":
            each = stretch.truth.present[:, 0].astype(np.float64)
            return np.repeat(each, len(stretch.sample_offset_s), axis=0)
        values: FloatArray = getattr(stretch.samples, self._inlet if field == "inlet_temp_c" else field)
        return values[:, :, 0].reshape(n_times, n_entities)


class FleetTruthSeries:
    """The state of a node in long form, a row per step; ``rail_v`` is that while the job is busy."""

    def __init__(self, entities: NodeEntities, *, out: RowStream) -> None:
        self._out = out
        self._places = out.places(places_of(truth_tables(entities)))

    def take(self, stretch: FleetStretch) -> None:
        """Add some steps, at the times of their beginnings."""
        truth = stretch.truth
        parts = [truth.busy_v, truth.v_min_v, truth.current_a[:, 0], truth.joint_mohm[:, 0]]
        parts += [truth.power_w[:, 0], truth.clock_mhz[:, 0], truth.die_c[:, 0]]
        values = np.concatenate(parts, axis=1)
        times_ns: CountArray = START_NS + np.rint(stretch.time_s * NS_PER_S).astype(np.int64)
        places = np.tile(self._places, len(times_ns))
        self._out.add(np.repeat(times_ns, len(self._places)), places, values.ravel())
        self._out.flush(before_ns=int(times_ns[-1]))


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
        self._event_recorder = EventRecorder(order.node)
        self._truth: FleetTruthSeries | None = None
        if truth_file.series is not None:
            self._truth = FleetTruthSeries(self._entities, out=truth_file.series.rows)
        self._step_s = closed_form_step_s(order.duration_s)
        self._steps = max(1, round(order.duration_s / self._step_s))

    def run(self, progress: Callable[[float], None]) -> RunSummary:
        """Go through the whole duration and end the files."""
        order = self._order
        fleet = Fleet([order.node], [order.scenario], seed=order.seed, step_s=self._step_s, workload=order.workload)
        fleet.obey(power_limit_w=order.power_limit_w, clock_cap_mhz=order.clock_mhz)
        happened: list[PlantEvent] = []
        happenings = FleetEvents()
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
        for rows in self._tables.rows(stretch):
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
