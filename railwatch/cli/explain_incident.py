"""``railwatch explain incident``: the whole story of one incident, with numbers."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from config.guard_pipeline import pipeline_settings
from config.loading import load_config
from evaluation.replay import recommending, recorded_topology, replayed
from railwatch.cli.incident_lookup import find_incident
from railwatch.cli.incident_plot import Around, frames_around, plot
from railwatch.cli.printing import SEVERITY_STYLE, print_json
from railwatch.cli.run_folder import ConfigFile, DataDir, data_dir_of, open_records
from railwatch.operator.incident_context import SampleEvidence, sample_evidence
from railwatch.operator.incident_story import (
    AFTER_NS,
    BEFORE_NS,
    IncidentStory,
    TimelineEntry,
    meaning_of,
    story_of_incident,
)
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.entities import Entity, EntityKind
from telemetry.errors import EnvironmentLacksError
from telemetry.recording import Recording, read_recording
from telemetry.records import Hypothesis, Incident, Record, to_json
from telemetry.topology import topology_of

_MOST_REASONS = 4
# A minute on either side shows what was usual. Heuristic.
_MARGIN_NS = 60 * NS_PER_S
# What holds the parts where no sample names their node.
NODE = Entity(kind=EntityKind.NODE, key="node", name="node")


def incident(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or its beginning.")],
    recording: Annotated[
        Path | None, typer.Option(help="Take the incident from a recording, judged anew where it holds none.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw the signals around it into a .svg or .png file.")
    ] = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Report the story of one incident: what was seen first, what it means, what was done, what to check next."""
    if plot_file is not None and plot_file.suffix not in (".svg", ".png"):
        raise typer.BadParameter(f"{plot_file}: expected a name that ends in .svg or .png", param_hint="--plot")
    if recording is not None:
        read = read_recording(recording)
        records = _told_in(read, incident_id, config_file)
        found = find_incident(records, incident_id)
        around: Around = read
    else:
        folder = data_dir_of(config_file, data_dir)
        store = open_records(folder)
        try:
            found = find_incident(store.find("incident", limit=1000), incident_id)
            end_ns = (found.closed_ns or found.time_ns) + AFTER_NS
            records = [*store.between(found.opened_ns - BEFORE_NS, end_ns)]
        finally:
            store.close()
        around = folder / "store"
    told = story_of_incident(found, records)
    more = _beside(found, around)
    if plot_file is not None:
        plot(found, around, plot_file)
    if as_json:
        fields = asdict(told)
        print_json({**fields, **asdict(more), "type": "story", "incident": to_json(found)})
        return
    _print(told, more)
    if plot_file is not None:
        Console(highlight=False).print(f"drawn into {escape(str(plot_file))}", soft_wrap=True)


def _told_in(read: Recording, incident_id: str, config_file: Path | None) -> Sequence[Record]:
    """Return the recording's own records, or those that the pipeline makes of it where it has no such incident."""
    own = [record for record in read.records if isinstance(record, Incident) and record.id.startswith(incident_id)]
    if own:
        return read.records
    settings = pipeline_settings(load_config(config_file, os.environ), simulated=bool(read.meta.simulated))
    made: list[Record] = []
    with Console(stderr=True).status(f"replaying {escape(str(read.path))}") as shown:
        for record in replayed(read, recommending(settings)):
            made.append(record)
            shown.update(f"replaying {escape(str(read.path))}: {iso_utc(record.time_ns)[11:19]}")
    return made


def _beside(found: Incident, around: Around) -> SampleEvidence:
    """Return what the samples say, nothing where none are kept: a server may have them."""
    end_ns = (found.closed_ns or found.time_ns) + _MARGIN_NS
    try:
        frames = frames_around(around, found.opened_ns - _MARGIN_NS, end_ns)
    except EnvironmentLacksError:
        return SampleEvidence()
    if isinstance(around, Recording):
        topology = recorded_topology(around)
    else:
        specs = {frame.spec.name: frame.spec for frame in frames}
        node = next((one for spec in specs.values() for one in spec.entities if one.kind is EntityKind.NODE), NODE)
        topology = topology_of(node, list(specs.values()))
    return sample_evidence(found, frames, topology)


def _print(told: IncidentStory, more: SampleEvidence) -> None:
    console = Console(highlight=False)
    one = told.incident
    style = SEVERITY_STYLE[one.severity]
    console.print(
        f"[{style}]{one.severity.value} {one.cause.value}[/]  {one.id}  {one.state.value}, opened "
        f"{iso_utc(one.opened_ns)[:19]}Z{_lasted(one)}",
        soft_wrap=True,
    )
    console.print(escape(one.summary), soft_wrap=True)
    if one.silence is not None:
        console.print(f"[yellow]{escape(one.silence)}[/]", soft_wrap=True)
    _print_moments(console, "what was seen, in order", told.seen, one.opened_ns)
    console.print("\n[bold]what is likely wrong[/]")
    for hypothesis in one.hypotheses:
        _print_hypothesis(console, hypothesis)
    if not one.hypotheses:
        console.print("  not judged: the record is of a version that did not rank answers", soft_wrap=True)
    _print_lines(console, "what contradicts the likeliest", told.contradicts)
    _print_lines(console, "who led", more.leads)
    _print_lines(console, "where the clocks went", more.clocks)
    _print_moments(console, "what was done", told.done, one.opened_ns)
    if not told.done:
        console.print("\n[bold]what was done[/]\n  nothing")
    console.print(f"\n[bold]what is at stake[/]\n  {escape(told.stake)}", soft_wrap=True)
    console.print("\n[bold]what to check next[/]")
    for number, words in enumerate(told.checks, 1):
        console.print(f"  {number}. {escape(words)}", soft_wrap=True)
    for words in more.offered:
        console.print(f"  {escape(words)}", soft_wrap=True)
    console.print("  more: docs/runbook/causes.md, by cause", soft_wrap=True)


def _lasted(one: Incident) -> str:
    """Return how long it lasted, or until when an open one was told of; nothing below a second."""
    lasted_s = ((one.closed_ns or one.time_ns) - one.opened_ns) / NS_PER_S
    if lasted_s < 1.0:
        return ""
    return f", {lasted_s:.0f} s" if one.closed_ns is not None else f", last told of {lasted_s:.0f} s later"


def _print_lines(console: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        console.print(f"\n[bold]{title}[/]")
    for words in lines:
        console.print(f"  {escape(words)}", soft_wrap=True)


def _print_moments(console: Console, title: str, moments: tuple[TimelineEntry, ...], opened_ns: int) -> None:
    if not moments:
        return
    console.print(f"\n[bold]{title}[/]")
    for moment in moments:
        after_s = (moment.time_ns - opened_ns) / NS_PER_S
        console.print(
            f"  [dim]{iso_utc(moment.time_ns)[11:23]} {after_s:+9.1f} s[/]  {moment.what}: {escape(moment.words)}",
            soft_wrap=True,
        )


def _print_hypothesis(console: Console, one: Hypothesis) -> None:
    console.print(
        f"  [bold]{one.probability:5.0%}  {one.cause.value}[/]  {escape(meaning_of(one.cause))}", soft_wrap=True
    )
    for label, lines in (("for", one.for_), ("against", one.against)):
        for words in lines[:_MOST_REASONS]:
            console.print(f"         [dim]{label:<8}[/]{escape(words)}", soft_wrap=True)
    console.print(f"         [dim]would be disproved by[/] {escape(one.would_disprove)}", soft_wrap=True)
