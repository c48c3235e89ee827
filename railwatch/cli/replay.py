"""``railwatch replay``: the live pipeline over a recording, the same every time."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from agent.guard.pipeline import Pipeline
from agent.guard.retracing import Trace, retrace
from agent.guard.step_log import TABLE as STEPS
from agent.guard.step_log import tables_of
from railwatch.cli.output import describe, print_json
from railwatch.cli.place import ConfigFile, JsonFlag
from railwatch.config.loading import load_config
from railwatch.pipeline import pipeline_settings, topology_of
from rules.loading import load_policies
from rules.policy import ActionClass
from rules.rails import Rails
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.recording import Recording, read_recording
from telemetry.records import Action, Event, Mode, Record, to_json

# As the live guard wakes with every fast row, a replay steps through short windows; 50 ms is one row at 20 Hz.
WINDOW_NS = 50_000_000
_DAY_NS = 86_400 * NS_PER_S  # what takes longer is told with its dates


def replay(
    recording: Annotated[Path, typer.Argument(help="A .parquet or .csv file in long form.")],
    rules: Annotated[Path | None, typer.Option(help="Decide by the policies of this folder instead.")] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run detectors, incidents and rules over a recording; nothing is carried out, decisions say what would be."""
    read = read_recording(recording)
    specs, trace = _judged(read.tables), _trace(read)
    settings = pipeline_settings(load_config(config_file, os.environ), simulated=bool(read.meta.simulated))
    settings = replace(settings, rails=Rails(modes=dict.fromkeys(ActionClass, Mode.RECOMMEND)))
    if rules is not None:
        settings = replace(settings, policies=load_policies((rules,)))
    clocks = read.meta.config.get("supported_mhz", {})
    pipeline = Pipeline(
        specs if trace is None else [table.spec for table in trace.tables.values()],
        _topology(read),
        settings,
        supported_mhz={uuid: tuple(values) for uuid, values in clocks.items()},
    )
    counts: Counter[str] = Counter()
    console = Console(highlight=False)
    first_ns, last_ns = read.span_ns or (0, 0)
    shown = slice(11, 19) if last_ns - first_ns < _DAY_NS else slice(0, 19)
    for record in _records(pipeline, read) if trace is None else retrace(pipeline, trace):
        counts[type(record).__name__.lower()] += 1
        if as_json:
            print_json(to_json(record, simulated=read.meta.simulated))
        else:
            console.print(f"[dim]{iso_utc(record.time_ns)[shown]}[/]  {describe(record)}", soft_wrap=True)
    if not as_json:
        told = ", ".join(f"{count} {name}s" for name, count in sorted(counts.items())) or "nothing found"
        console.print(f"{recording}: {told}")


def _judged(tables: Sequence[TableSpec]) -> list[TableSpec]:
    """Give the tables that are judged where nobody kept which ones the guard judged live."""
    return [spec for spec in tables if not spec.is_late and spec.name != STEPS]


def _trace(read: Recording) -> Trace | None:
    """Give the steps of the live guard where the recording has them: the flight recorder writes them down.

    Steps of two guards, where the sampling process was started again with other tables, cannot be taken by one.
    """
    steps = next((spec for spec in read.tables if spec.name == STEPS), None)
    first_rows = read.meta.about.get("first_rows", {})
    if steps is None or STEPS not in first_rows:
        return None
    whole = {spec.name: frame for spec in read.tables if (frame := _whole(read, spec)) is not None}
    if STEPS not in whole or np.any(np.diff(whole[STEPS].values[:, 0, : len(tables_of(steps))], axis=0) < 0):
        return None
    events = [record for record in read.records if isinstance(record, Event)]
    order = read.meta.about.get("event_order", [])
    return Trace(
        steps=whole[STEPS],
        tables={name: whole[name] for name in tables_of(steps) if name in whole},
        first_rows=first_rows,
        events=[events[place] for place in order] if sorted(order) == list(range(len(events))) else events,
        actions=[record for record in read.records if isinstance(record, Action)],
    )


def _whole(read: Recording, spec: TableSpec) -> Frame | None:
    parts = [frame for frame in read.frames() if frame.spec.name == spec.name]
    if not parts:
        return None
    return Frame(
        spec=spec,
        time_ns=np.concatenate([part.time_ns for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        fresh=np.concatenate([part.fresh for part in parts]),
    )


def _topology(read: Recording) -> Topology:
    """Give the recording's topology; a foreign file has none, so everything is taken to be one node."""
    if read.topology.edges:
        return read.topology
    name = read.meta.node or read.path.stem
    return topology_of(Entity(kind=EntityKind.NODE, key=name, name=name), read.tables)


def _records(pipeline: Pipeline, read: Recording) -> Iterator[Record]:
    events = [record for record in read.records if isinstance(record, Event)]
    waiting: list[Frame] = []
    window = None
    for frame in read.frames(window_ns=WINDOW_NS):
        if frame.spec.is_late or frame.spec.name == STEPS:
            continue
        here = int(frame.time_ns[0]) // WINDOW_NS
        if window is not None and here != window:
            yield from _step(pipeline, waiting, events)
            waiting = []
        window = here
        waiting.append(frame)
    if waiting:
        yield from _step(pipeline, waiting, events)
    for event in events:  # told when no row came any more
        yield from pipeline.step((), (event,), event.time_ns).records


def _step(pipeline: Pipeline, frames: list[Frame], events: list[Event]) -> tuple[Record, ...]:
    now_ns = max(int(frame.time_ns[-1]) for frame in frames)
    told = []
    while events and events[0].time_ns <= now_ns:
        told.append(events.pop(0))
    return pipeline.step(frames, told, now_ns).records
