"""The live pipeline over a recording, the same every time: what ``replay`` prints and what ``evaluate`` scores."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from pydantic import BaseModel

from agent.guard.pipeline import Pipeline, PipelineSettings
from agent.guard.retracing import RecordedSteps, retrace
from agent.guard.step_log import TABLE as STEPS
from agent.guard.step_log import tables_of
from config.topology import TopologySection
from physics.feeding import described_supplies, feeding_of, misfits
from physics.wiring import Wiring
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass
from telemetry.commands import Command
from telemetry.documents import check_document
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec, joined_frames
from telemetry.recording import Recording
from telemetry.records import Action, Event, Mode, Record
from telemetry.topology import topology_of

logger = logging.getLogger(__name__)

# As the live guard wakes with every fast row, a replay steps through short windows; 50 ms is one row at 20 Hz.
WINDOW_NS = 50_000_000


# Readings of rails as recordings of earlier versions and of board controllers name them.
_EARLIER_NAMES = {
    "rail_voltage_v": "voltage_v",
    "rail_current_a": "current_a",
    "rail_voltage_min_v": "voltage_min_v",
    "rail_current_max_a": "current_max_a",
}


def recommending(settings: PipelineSettings) -> PipelineSettings:
    """Return the settings of a replay: no action is possible, so every decision states what it would do."""
    return replace(settings, action_limits=NodeLimits(modes=dict.fromkeys(ActionClass, Mode.RECOMMEND)))


def replayed(read: Recording, settings: PipelineSettings, *, window_ns: int = WINDOW_NS) -> Iterator[Record]:
    """Return every record that the pipeline makes of a recording, in order of time; nothing is carried out.

    Where the recording holds no steps of a live guard, each step takes the rows of `window_ns`. Longer ones give the
    same findings at less cost, and report them up to that much later.
    """
    wiring = recorded_wiring(read) if settings.wiring is None else settings.wiring
    if settings.wiring is not None:
        read = as_described(read, settings.wiring)
    # The tables that are judged where the recording does not keep which ones the guard judged live.
    names = _earlier_names(read)
    specs = [_renamed(spec, names) for spec in read.tables if not spec.is_late and spec.name != STEPS]
    trace = _trace(read)
    clocks = read.meta.config.get("supported_mhz", {})
    pipeline = Pipeline(
        specs if trace is None else [table.spec for table in trace.tables.values()],
        recorded_topology(read),
        replace(settings, wiring=wiring),
        supported_mhz={uuid: tuple(values) for uuid, values in clocks.items()},
        ranges=read.meta.config.get("ranges", {}),
    )
    return _records(pipeline, read, window_ns) if trace is None else iter(retrace(pipeline, trace))


def _earlier_names(read: Recording) -> Mapping[str, str]:
    """Return the names of readings by those of earlier versions and of board controllers.

    Empty where some supply has a voltage of its own: a controller's readings are then further ones of the same rails.
    """
    named = {name for spec in read.tables if spec.kind is EntityKind.SUPPLY for name in spec.signals}
    return {} if _EARLIER_NAMES.keys().isdisjoint(named) or "voltage_v" in named else _EARLIER_NAMES


def _renamed(spec: TableSpec, names: Mapping[str, str]) -> TableSpec:
    if not names or spec.kind is not EntityKind.SUPPLY:
        return spec
    return replace(spec, signals=tuple(names.get(one, one) for one in spec.signals))


def recorded_topology(read: Recording) -> Topology:
    """Return the recording's topology; a foreign file has none, so everything is taken to be one node."""
    if read.topology.edges:
        return read.topology
    return topology_of(_node(read), read.tables, partial(feeding_of, None))


def _node(read: Recording) -> Entity:
    name = read.meta.node or read.path.stem
    unnamed = Entity(kind=EntityKind.NODE, key=name, name=name)
    return next((one for one in read.topology.entities if one.kind is EntityKind.NODE), unnamed)


def as_described(read: Recording, wiring: Wiring) -> Recording:
    """Return the recording of a node as another description of it has it: names, tags and edges of its supplies."""
    tables = []
    for spec in read.tables:
        if spec.kind is EntityKind.SUPPLY:
            supplies = described_supplies(spec.entities, wiring)
            for text in misfits(spec.entities, supplies):
                logger.warning("described wiring does not fit %s: %s", read.path, text)
            tables.append(replace(spec, entities=supplies))
        else:
            tables.append(spec)
    return replace(read, tables=tuple(tables), topology=topology_of(_node(read), tables, partial(feeding_of, wiring)))


def recorded_wiring(read: Recording) -> Wiring | None:
    """Return the wiring that the configuration of the recorded run describes; None where it describes none.

    Raises
    ------
    ConfigError
        The description contradicts itself, or is that of another version.
    """
    described = {"topology": read.meta.config.get("topology") or {}}
    return check_document(_Described, described, where=str(read.path), lines={}).topology.wiring()


class _Described(BaseModel):
    """Part of a recorded configuration that describes the wiring."""

    topology: TopologySection


def _trace(read: Recording) -> RecordedSteps | None:
    """Return the steps of the live guard where the recording has them: the flight recorder writes them down.

    Steps of two guards, where the sampling process was started again with other tables, cannot be taken by one.
    """
    steps = next((spec for spec in read.tables if spec.name == STEPS), None)
    first_rows = read.meta.about.get("first_rows", {})
    if steps is None or STEPS not in first_rows:
        return None
    whole = {spec.name: frame for spec in read.tables if (frame := _whole(read, spec)) is not None}
    if STEPS not in whole or np.any(np.diff(whole[STEPS].values[:, 0, : len(tables_of(steps))], axis=0) < 0):
        return None
    reports = [record for record in read.records if isinstance(record, Event | Command)]
    order = read.meta.about.get("event_order", [])
    return RecordedSteps(
        steps=whole[STEPS],
        tables={name: whole[name] for name in tables_of(steps) if name in whole},
        first_rows=first_rows,
        reports=[reports[place] for place in order] if sorted(order) == list(range(len(reports))) else reports,
        actions=[record for record in read.records if isinstance(record, Action)],
    )


def _whole(read: Recording, spec: TableSpec) -> Frame | None:
    parts = [frame for frame in read.frames() if frame.spec.name == spec.name]
    return joined_frames(parts) if parts else None


def _records(pipeline: Pipeline, read: Recording, window_ns: int) -> Iterator[Record]:
    reports = [record for record in read.records if isinstance(record, Event | Command)]
    names = _earlier_names(read)
    waiting: list[Frame] = []
    window = None
    for frame in read.frames(window_ns=window_ns):
        if frame.spec.is_late or frame.spec.name == STEPS:
            continue
        here = int(frame.time_ns[0]) // window_ns
        if window is not None and here != window:
            yield from _step(pipeline, waiting, reports)
            waiting = []
        window = here
        waiting.append(replace(frame, spec=_renamed(frame.spec, names)) if names else frame)
    if waiting:
        yield from _step(pipeline, waiting, reports)
    for report in reports:  # made when no row came any more
        yield from pipeline.step((), (report,), report.time_ns).records


def _step(pipeline: Pipeline, frames: list[Frame], reports: list[Event | Command]) -> tuple[Record, ...]:
    now_ns = max(int(frame.time_ns[-1]) for frame in frames)
    due = []
    while reports and reports[0].time_ns <= now_ns:
        due.append(reports.pop(0))
    return pipeline.step(frames, due, now_ns).records
