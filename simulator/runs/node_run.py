"""Node, millisecond by millisecond, into a recording; a run of a rack records each of its nodes likewise."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from simulator.plant.events import PlantEvent
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.plant.state import Stretch
from simulator.runs.description import (
    TruthSeries,
    job_names,
    meta_of,
    run_description,
    truth_document,
    truth_tables,
)
from simulator.runs.order import RunOrder
from simulator.runs.output import RecordingFile, run_files
from simulator.runs.recorder import RunRecorder
from simulator.runs.summary import RunSummary, RunTally
from simulator.runs.topology import entities_of
from simulator.sensors.bank import SensorBank
from telemetry.recording import RecordingMeta

_MS_PER_S = 1000.0
_PROGRESS_MS = 1000


class NodeRecording:
    """Looks at a plant with the sensors of its node, block by block.

    Parameters
    ----------
    jobs
        The names of all that will run.

    Attributes
    ----------
    order
        What the run is asked to do.
    entities
        What there is on the node.
    happened
        Everything that happened on it so far.
    """

    def __init__(self, order: RunOrder, plant: Plant, file: RecordingFile, *, jobs: Sequence[str]) -> None:
        self.order, self._plant, self._file = order, plant, file
        self.entities = entities_of(order.node, jobs=tuple(jobs))
        self.happened: list[PlantEvent] = []
        self._bank = SensorBank(order.node, order.scenario, order.seed)
        self._recorder = RunRecorder(order.node, self.entities, self._bank, out=file.rows)
        self._tally = RunTally()

    def take(self, stretch: Stretch) -> None:
        """Process the block that the plant just simulated."""
        plant = self._plant
        self._bank.advance(stretch, plant.state)
        events = plant.take_events()
        self.happened += events
        self._recorder.take(int(stretch.time_ms[0]), plant.state, plant.settings, events)
        self._tally.take(self._bank)

    def end(self, known: dict[str, Any]) -> RecordingMeta:
        """Finish the file with what is `known` of the run; return the description of the recording."""
        meta = meta_of(self.order, known)
        self._file.end(self._recorder.specs, topology=self.entities.topology, meta=meta)
        return meta

    def summary(self, *, drops: int) -> RunSummary:
        """Return the run in a few numbers."""
        return self._tally.summary(
            tier="a",
            simulated_s=self.order.duration_ms / _MS_PER_S,
            rows=self._file.rows.rows,
            drops=drops,
            steps=self._plant.state.steps,
        )


def blocks(duration_ms: int, progress: Callable[[float], None]) -> Iterator[int]:
    """Yield when each block of a run begins; `progress` receives the seconds done, once a second and at the end."""
    for start_ms in range(0, duration_ms, BLOCK_MS):
        yield start_ms
        if start_ms % _PROGRESS_MS == 0:
            progress(start_ms / _MS_PER_S)
    progress(duration_ms / _MS_PER_S)


def record_run(
    order: RunOrder, out: Path, *, truth: Path | None = None, progress: Callable[[float], None] = lambda _: None
) -> RunSummary:
    """Simulate a node and write what its sensors showed, and next to it what was true.

    Memory does not grow with the duration. `progress` receives the seconds done, once per simulated second.

    Raises
    ------
    EnvironmentLacksError
        A file cannot be written; nothing is left behind.
    """
    with run_files([out], truth) as ((file,), truth_file):
        plant = order.plant()
        recording = NodeRecording(order, plant, file, jobs=job_names(order))
        entities = recording.entities
        series = None
        if truth_file.series is not None:
            series = TruthSeries(entities, out=truth_file.series.rows)
        for _ in blocks(order.duration_ms, progress):
            stretch = plant.advance(BLOCK_MS)
            recording.take(stretch)
            if series is not None:
                series.take(stretch, plant.state)
        known = run_description(order, recording.happened, tier="a")
        meta = recording.end(known)
        document = truth_document(order, known, recording.happened)
        truth_file.end(truth_tables(entities), topology=entities.topology, meta=meta, document=document)
        return recording.summary(drops=len(known["drops"]))
