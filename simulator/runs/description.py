"""Description of a run in its files: its settings, its start, and its truth for scoring judgements of the recording."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Truth
from simulator.files.workload import load_workload
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.state import PlantNodeState, Stretch
from simulator.runs.order import RunOrder
from simulator.runs.stream import RowStream
from simulator.runs.topology import NodeEntities
from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.durations import format_duration
from telemetry.frames import TableSpec
from telemetry.json_text import json_text
from telemetry.recording import RecordingMeta
from telemetry.recording_rows import Place

_MS_PER_S = 1000.0
START_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z: the same seed gives the same bytes on any day


def labels_of(truths: Sequence[Truth]) -> list[dict[str, Any]]:
    """Return what is wrong from when to when, as JSON types; an end that is None means that nothing is repaired."""

    def at_ns(seconds: float | None) -> int | None:
        return None if seconds is None else START_NS + round(seconds * NS_PER_S)

    return [
        {
            "cause": str(truth.cause),
            "entities": list(truth.entities),
            "onset_s": truth.onset,
            "onset_ns": at_ns(truth.onset),
            "end_s": truth.end,
            "end_ns": at_ns(truth.end),
        }
        for truth in truths
    ]


def drops_of(events: Sequence[PlantEvent], node: NodeFile) -> list[dict[str, Any]]:
    """Return every GPU that fell off its bus, with the Xid by which the driver reported it, if it did in time."""
    drops = []
    for place, event in enumerate(events):
        if event.kind is not PlantEventKind.GPU_LOST or event.gpu is None:
            continue
        xid = next(
            (later for later in events[place:] if later.kind is PlantEventKind.XID and later.gpu == event.gpu), None
        )
        drops.append(
            {
                "gpu": f"gpu{event.gpu}",
                "uuid": node.gpu_uuid(event.gpu),
                "time_s": event.time_ms / _MS_PER_S,
                "time_ns": START_NS + event.time_ms * NS_PER_MS,
                "xid": None if xid is None else xid.code,
                "xid_time_s": None if xid is None else xid.time_ms / _MS_PER_S,
                "xid_time_ns": None if xid is None else START_NS + xid.time_ms * NS_PER_MS,
            }
        )
    return drops


def events_of(events: Sequence[PlantEvent], node: NodeFile) -> list[dict[str, Any]]:
    """Return everything that happened, as JSON types."""
    return [
        {
            "time_s": event.time_ms / _MS_PER_S,
            "time_ns": START_NS + event.time_ms * NS_PER_MS,
            "kind": str(event.kind),
            "gpu": None if event.gpu is None else f"gpu{event.gpu}",
            "supply": None if event.supply is None else node.supply.units[event.supply].name,
            "code": event.code,
        }
        for event in events
    ]


def truth_tables(entities: NodeEntities) -> tuple[TableSpec, ...]:
    """Return the tables of the true series: rail, supplies and GPUs."""
    return tuple(
        TableSpec(name=f"true_{members[0].kind}", kind=members[0].kind, entities=members, signals=signals)
        for members, signals in (
            ((entities.node,), ("rail_v", "rail_min_v")),
            (entities.supplies, ("current_a", "joint_mohm")),
            (entities.gpus, ("power_w", "clock_mhz", "die_c")),
        )
    )


def places_of(tables: Sequence[TableSpec]) -> list[Place]:
    """Return the places of some tables, table by table, signal by signal."""
    return [
        (str(table.kind), entity.key, signal)
        for table in tables
        for signal in table.signals
        for entity in table.entities
    ]


class TruthSeries:
    """The state itself in long form, a row per block: means over its milliseconds, and the rail's lowest."""

    def __init__(self, entities: NodeEntities, *, out: RowStream) -> None:
        self._out = out
        self._places = out.places(places_of(truth_tables(entities)))

    def take(self, stretch: Stretch, state: PlantNodeState) -> None:
        """Add one block, at the time of its end."""
        values = np.concatenate(
            [
                [stretch.voltage_v.mean(), stretch.voltage_v.min()],
                stretch.current_a.mean(axis=0),
                state.supplies.joint_mohm,
                stretch.power_w.mean(axis=0),
                state.gpus.clock_mhz,
                state.gpus.die_c,
            ]
        )
        time_ns = START_NS + state.now_ms * NS_PER_MS
        self._out.add(np.full(len(values), time_ns), self._places, values)
        self._out.flush(before_ns=time_ns)


def truth_document(order: RunOrder, known: dict[str, Any], happened: Sequence[PlantEvent]) -> str:
    """Return all that was true as JSON."""
    document = {**known, "events": events_of(happened, order.node)}
    return json_text(document, indent=1) + "\n"


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
        "labels": labels_of(order.scenario.truth),
        "drops": drops_of(happened, order.node),
    }


def meta_of(order: RunOrder, known: dict[str, Any]) -> RecordingMeta:
    """Return the metadata of a recording: those of a live one, and what is `known` of the run."""
    clocks = list(order.node.gpu.clocks.settable_mhz)
    live = {
        "supported_mhz": {order.node.gpu_uuid(index): clocks for index in range(order.node.gpu_count)},
        "source": f"simulated {order.node.name} for {format_duration(order.duration_s)}",
    }
    return RecordingMeta(node=order.node.name, simulated=True, config=live | known)


def job_names(order: RunOrder) -> tuple[str, ...]:
    """Return the names of the jobs that will run."""
    return (order.workload.name, *(load_workload(start.workload, option="jobs").name for start in order.scenario.jobs))
