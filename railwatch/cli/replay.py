"""``railwatch replay``: the live pipeline over a recording, the same every time."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agent.guard.pipeline import Pipeline
from railwatch.cli.output import describe, print_json
from railwatch.cli.place import ConfigFile, JsonFlag
from railwatch.config.loading import load_config
from railwatch.pipeline import pipeline_settings, topology_of
from rules.loading import load_policies
from rules.policy import ActionClass
from rules.rails import Rails
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame
from telemetry.recording import Recording, read_recording
from telemetry.records import Event, Mode, Record, to_json

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
    settings = pipeline_settings(load_config(config_file, os.environ), simulated=bool(read.meta.simulated))
    settings = replace(settings, rails=Rails(modes=dict.fromkeys(ActionClass, Mode.RECOMMEND)))
    if rules is not None:
        settings = replace(settings, policies=load_policies((rules,)))
    clocks = read.meta.config.get("supported_mhz", {})
    pipeline = Pipeline(
        read.tables,
        _topology(read),
        settings,
        supported_mhz={uuid: tuple(values) for uuid, values in clocks.items()},
    )
    counts: Counter[str] = Counter()
    console = Console(highlight=False)
    first_ns, last_ns = read.span_ns or (0, 0)
    shown = slice(11, 19) if last_ns - first_ns < _DAY_NS else slice(0, 19)
    for record in _records(pipeline, read):
        counts[type(record).__name__.lower()] += 1
        if as_json:
            print_json(to_json(record, simulated=read.meta.simulated))
        else:
            console.print(f"[dim]{iso_utc(record.time_ns)[shown]}[/]  {describe(record)}", soft_wrap=True)
    if not as_json:
        told = ", ".join(f"{count} {name}s" for name, count in sorted(counts.items())) or "nothing found"
        console.print(f"{recording}: {told}")


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
        here = int(frame.time_ns[0]) // WINDOW_NS
        if window is not None and here != window:
            yield from _step(pipeline, waiting, events)
            waiting = []
        window = here
        waiting.append(frame)
    if waiting:
        yield from _step(pipeline, waiting, events)


def _step(pipeline: Pipeline, frames: list[Frame], events: list[Event]) -> tuple[Record, ...]:
    now_ns = max(int(frame.time_ns[-1]) for frame in frames)
    told = []
    while events and events[0].time_ns <= now_ns:
        told.append(events.pop(0))
    return pipeline.step(frames, told, now_ns).records
