"""Rack, millisecond by millisecond, into a recording of each node, and the truth of rack and nodes."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Truth
from simulator.jobs.plan import SpanningJob
from simulator.plant.events import PlantEvent
from simulator.plant.plant import BLOCK_MS
from simulator.plant.rack import Rack
from simulator.plant.state import Stretch
from simulator.runs.description import (
    START_NS,
    TruthSeries,
    events_of,
    job_names,
    labels_of,
    places_of,
    run_description,
    truth_tables,
)
from simulator.runs.node_run import NodeRecording, blocks
from simulator.runs.order import RackOrder, RunOrder
from simulator.runs.output import RecordingFile, TruthFile, node_paths, run_files
from simulator.runs.stream import RowStream
from simulator.runs.summary import RackSummary, RackTally
from simulator.runs.topology import NodeEntities, in_rack, rack_topology
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.json_text import json_text
from telemetry.recording import RecordingMeta

_MS_PER_S = 1000.0
_NS_PER_MS = 1_000_000
_SHARED = frozenset({"pdu", "rack"})
PDU = Entity(kind=EntityKind.SUPPLY, key="pdu", name="pdu")


def node_description(
    order: RackOrder, number: int, *, node: RunOrder, happened: Sequence[PlantEvent]
) -> dict[str, Any]:
    """Return what a run was and what was true of one node, with that node's own names, as JSON types."""
    rack = order.scenario.rack
    return {
        **run_description(node, happened, tier="a"),
        "seed": order.seed,
        "model": Path(rack.nodes[number]).stem,
        "rack": rack.name,
        "rack_scenario": order.scenario.file.name,
        "labels": labels_of(_seen_from(node.node.name, order.scenario.file.truth)),
    }


def rack_run_description(
    order: RackOrder, jobs: Sequence[SpanningJob], tally: RackTally, nodes: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return what a run was and what was true of the rack, as JSON types; `nodes` holds the same for each node."""
    own = ("node", "model", "scenario", "workload", "drops")
    return {
        "rack": order.scenario.rack.name,
        "scenario": order.scenario.file.name,
        **{key: nodes[0][key] for key in ("seed", "tier", "start_ns", "duration_s", "settings")},
        "labels": labels_of(order.scenario.file.truth),
        "jobs": [_job_description(job) for job in jobs],
        "shared": asdict(tally.shared()),
        "breaker": [
            {
                "time_s": turn.time_ms / _MS_PER_S,
                "time_ns": START_NS + turn.time_ms * _NS_PER_MS,
                "closed": turn.closed,
            }
            for turn in tally.turns
        ],
        "nodes": [{key: node[key] for key in own} for node in nodes],
    }


def rack_document(known: dict[str, Any], happened: Sequence[tuple[NodeFile, Sequence[PlantEvent]]]) -> str:
    """Return all that was true as JSON: what is `known`, and what `happened` on each node."""
    nodes = [
        {**rest, "events": events_of(events, node)}
        for rest, (node, events) in zip(known["nodes"], happened, strict=True)
    ]
    return json_text({**known, "nodes": nodes}, indent=1) + "\n"


def _job_description(spanning: SpanningJob) -> dict[str, Any]:
    ends = spanning.until_s != float("inf")
    return {
        "workload": spanning.job.workload.name,
        "nodes": [f"node{number}" for number in spanning.nodes],
        "from_s": spanning.from_s,
        "until_s": spanning.until_s if ends else None,
    }


def _seen_from(node: str, truths: Sequence[Truth]) -> list[Truth]:
    """Return what of a rack's truth concerns a node: its own parts by their own names, and what all nodes share."""
    seen = []
    for truth in truths:
        own = [_own_name(node, entity) for entity in truth.entities]
        names = tuple(name for name in own if name is not None)
        if names:
            seen.append(truth.model_copy(update={"entities": names}))
    return seen


def _own_name(node: str, entity: str) -> str | None:
    if entity in _SHARED:
        return entity
    if entity == node:
        return "node"
    return entity.removeprefix(f"{node}.") if entity.startswith(f"{node}.") else None


def rack_truth_tables(nodes: Sequence[NodeEntities]) -> tuple[TableSpec, ...]:
    """Return the tables of the true series: those of a node for all of them together, and those of what they share."""
    return (*_shared_tables(nodes), *map(_together, zip(*map(truth_tables, nodes), strict=True)))


class RackTruthSeries:
    """The state of a rack in long form, a row per block; the keys of its `nodes` hold beside each other."""

    def __init__(self, nodes: Sequence[NodeEntities], *, out: RowStream) -> None:
        self._out = out
        self._nodes = [TruthSeries(node, out=out) for node in nodes]
        self._places = out.places(places_of(_shared_tables(nodes)))

    def take(self, rack: Rack, stretches: Sequence[Stretch]) -> None:
        """Add one block, at the time of its end."""
        for series, plant, stretch in zip(self._nodes, rack.plants, stretches, strict=True):
            series.take(stretch, plant.state)
        state = rack.state
        shared = [state.power_w, state.input_ratio, float(state.breaker_closed)]
        values = np.array([*shared, *(plant.state.inlet_c for plant in rack.plants)])
        time_ns = START_NS + state.now_ms * _NS_PER_MS
        self._out.add(np.full(len(values), time_ns), self._places, values)


def _shared_tables(nodes: Sequence[NodeEntities]) -> tuple[TableSpec, ...]:
    pdu = ("power_w", "input_ratio", "breaker_closed")
    boxes = tuple(node.node for node in nodes)
    return (
        TableSpec(name="true_pdu", kind=EntityKind.SUPPLY, entities=(PDU,), signals=pdu),
        TableSpec(name="true_inlet", kind=EntityKind.NODE, entities=boxes, signals=("inlet_c",)),
    )


def _together(tables: Sequence[TableSpec]) -> TableSpec:
    first = tables[0]
    members = tuple(entity for table in tables for entity in table.entities)
    return TableSpec(name=first.name, kind=first.kind, entities=members, signals=first.signals)


def record_rack(
    order: RackOrder, out: Path, *, truth: Path | None = None, progress: Callable[[float], None] = lambda _: None
) -> RackSummary:
    """Simulate a rack and write what the sensors of each node showed, and next to it what was true of all.

    The recordings are written to one folder, see `node_paths`; `out` itself is none of them. Memory does not grow with
    the duration. `progress` receives the seconds done, once per simulated second.

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
