"""Description of a run of a rack in its files: its settings, and the truth of rack and nodes."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulator.files.node import NodeFile
from simulator.files.scenario import Truth
from simulator.jobs.spanning import SpanningJob
from simulator.plant.events import PlantEvent
from simulator.runs.description import START_NS, run_description
from simulator.runs.order import RunOrder
from simulator.runs.rack_order import RackOrder
from simulator.runs.rack_summary import RackTally
from simulator.runs.truth import events_of, labels_of

_MS_PER_S = 1000.0
_NS_PER_MS = 1_000_000
_SHARED = frozenset({"pdu", "rack"})


def node_description(
    order: RackOrder, number: int, *, node: RunOrder, happened: Sequence[PlantEvent]
) -> dict[str, Any]:
    """Return what a run was and what was true of one node, in that node's own words, as JSON types."""
    rack = order.scenario.rack
    return {
        **run_description(node, happened, tier="a"),
        "seed": order.seed,
        "model": Path(rack.nodes[number]).stem,
        "rack": rack.name,
        "rack_scenario": order.scenario.file.name,
        "labels": labels_of(_seen_from(node.node.name, order.scenario.file.truth), start_ns=START_NS),
    }


def rack_run_description(
    order: RackOrder, jobs: Sequence[SpanningJob], tally: RackTally, nodes: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return what a run was and what was true of the rack, as JSON types; `nodes` says so of each node."""
    own = ("node", "model", "scenario", "workload", "drops")
    return {
        "rack": order.scenario.rack.name,
        "scenario": order.scenario.file.name,
        **{key: nodes[0][key] for key in ("seed", "tier", "start_ns", "duration_s", "settings")},
        "labels": labels_of(order.scenario.file.truth, start_ns=START_NS),
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
        {**rest, "events": events_of(events, node, start_ns=START_NS)}
        for rest, (node, events) in zip(known["nodes"], happened, strict=True)
    ]
    return json.dumps({**known, "nodes": nodes}, indent=1) + "\n"


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
