"""Description of a run in its files: its settings, its truth, its start."""

import json
from collections.abc import Sequence
from typing import Any

from simulator.files.node import NodeFile
from simulator.files.workload import load_workload
from simulator.plant.events import PlantEvent
from simulator.runs.order import RunOrder
from simulator.runs.truth import drops_of, events_of, labels_of
from telemetry.durations import format_duration
from telemetry.recording import RecordingMeta

START_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z: the same seed gives the same bytes on any day
_MS_PER_S = 1000.0


def truth_document(order: RunOrder, known: dict[str, Any], happened: Sequence[PlantEvent]) -> str:
    """Return all that was true as JSON."""
    document = {**known, "events": events_of(happened, order.node, start_ns=START_NS)}
    return json.dumps(document, indent=1) + "\n"


def run_description(order: RunOrder, happened: Sequence[PlantEvent], *, tier: str) -> dict[str, Any]:
    """Return what a run was and what was true of it, as JSON types."""
    return {
        "node": order.node.name,
        "scenario": order.scenario.name,
        "workload": order.workload.name,
        "seed": order.seed,
        "tier": tier,
        "start_ns": START_NS,
        "duration_s": order.duration_ms / _MS_PER_S,
        "settings": order.settings,
        "labels": labels_of(order.scenario.truth, start_ns=START_NS),
        "drops": drops_of(happened, order.node, start_ns=START_NS),
    }


def meta_of(order: RunOrder, known: dict[str, Any]) -> RecordingMeta:
    """Return what a recording says about itself: what a live one says too, and what is `known` of the run."""
    clocks = _settable_mhz(order.node)
    live = {
        "supported_mhz": {order.node.gpu_uuid(index): clocks for index in range(order.node.gpu_count)},
        "source": f"simulated {order.node.name} for {format_duration(order.duration_s)}",
    }
    return RecordingMeta(node=order.node.name, simulated=True, config=live | known)


def _settable_mhz(node: NodeFile) -> list[float]:
    """Return the clocks ascending but for the default, which reads as unset."""
    return [float(clock) for clock in node.gpu.clocks.supported_mhz if clock != node.gpu.clocks.default_mhz]


def job_names(order: RunOrder) -> tuple[str, ...]:
    """Return the names of the jobs that will run."""
    return (order.workload.name, *(load_workload(start.workload, option="jobs").name for start in order.scenario.jobs))
