"""Node, millisecond by millisecond, into a recording."""

from collections.abc import Callable
from pathlib import Path

from simulator.plant.plant import BLOCK_MS
from simulator.runs.description import START_NS, job_names, run_description, truth_document
from simulator.runs.node_recording import NodeRecording, blocks
from simulator.runs.order import RunOrder
from simulator.runs.summary import RunSummary
from simulator.runs.truth import TruthSeries, truth_tables
from simulator.runs.writing import run_files


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
    with run_files([out], truth) as ((file,), truth_file):
        plant = order.plant()
        recording = NodeRecording(order, plant, file, jobs=job_names(order))
        entities = recording.entities
        series = None
        if truth_file.series is not None:
            series = TruthSeries(entities, out=truth_file.series.rows, start_ns=START_NS)
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
