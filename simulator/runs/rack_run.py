"""Rack, millisecond by millisecond, into a recording of each node."""

from collections.abc import Callable, Sequence
from pathlib import Path

from simulator.plant.plant import BLOCK_MS
from simulator.plant.rack import Rack
from simulator.runs.description import job_names
from simulator.runs.node_recording import NodeRecording, blocks
from simulator.runs.order import RunOrder
from simulator.runs.output import node_paths
from simulator.runs.rack_description import node_description, rack_document, rack_run_description
from simulator.runs.rack_order import RackOrder
from simulator.runs.rack_summary import RackSummary, RackTally
from simulator.runs.rack_truth import PDU, RackTruthSeries, rack_truth_tables
from simulator.runs.topology import in_rack, rack_topology
from simulator.runs.writing import RecordingFile, TruthFile, run_files
from telemetry.recording import RecordingMeta


def record_rack(
    order: RackOrder, out: Path, *, truth: Path | None = None, progress: Callable[[float], None] = lambda _: None
) -> RackSummary:
    """Simulate a rack and write what the sensors of each node showed, and beside it what was true of all.

    The recordings stand beside each other, see `node_paths`; `out` itself is none of them. Memory does not grow with
    the duration. `progress` is told the seconds done, once per simulated second.

    Raises
    ------
    EnvironmentLacksError
        A file cannot be written; nothing is left behind.
    """
    nodes = order.nodes()
    with run_files(node_paths(out, len(nodes)), truth) as (files, truth_file):
        rack = order.plant()
        recordings = _recordings(nodes, rack, files)
        tally = RackTally()
        series = None
        if truth_file.series is not None:
            entities = [in_rack(recording.entities) for recording in recordings]
            series = RackTruthSeries(entities, out=truth_file.series.rows)
        for _ in blocks(nodes[0].duration_ms, progress):
            stretches = rack.advance(BLOCK_MS)
            for recording, stretch in zip(recordings, stretches, strict=True):
                recording.take(stretch)
            tally.take(rack.state)
            if series is not None:
                series.take(rack, stretches)
        return _end(order, rack, recordings, tally, truth_file)


def _recordings(nodes: Sequence[RunOrder], rack: Rack, files: Sequence[RecordingFile]) -> list[NodeRecording]:
    recordings = []
    for number, (node, plant, file) in enumerate(zip(nodes, rack.plants, files, strict=True)):
        spanning = [spans.job.workload.name for spans in rack.jobs if number in spans.nodes]
        recordings.append(NodeRecording(node, plant, file, jobs=[*job_names(node), *spanning]))
    return recordings


def _end(
    order: RackOrder, rack: Rack, recordings: Sequence[NodeRecording], tally: RackTally, truth_file: TruthFile
) -> RackSummary:
    """Finish the files."""
    rest, summaries = [], []
    for number, recording in enumerate(recordings):
        known = node_description(order, number, node=recording.order, happened=recording.happened)
        recording.end(known)
        rest.append(known)
        summaries.append(recording.summary(drops=len(known["drops"])))
    known = rack_run_description(order, rack.jobs, tally, rest)
    nodes = [in_rack(recording.entities) for recording in recordings]
    truth_file.end(
        rack_truth_tables(nodes),
        topology=rack_topology(nodes, PDU),
        meta=RecordingMeta(node=order.scenario.rack.name, simulated=True, config=known),
        document=rack_document(known, [(recording.order.node, recording.happened) for recording in recordings]),
    )
    return tally.summary(tuple(summaries))
