"""``railwatch explain incident``: timeline, likely causes, actions and next checks of one incident."""

import contextlib
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from analytics.classification.reading import AFTER_NS, BEFORE_NS
from config.guard_pipeline import pipeline_settings
from config.loading import load_config
from evaluation.replay import recommending, recorded_topology, replayed
from physics.feeding import feeding_of
from physics.wiring import Wiring
from railwatch.cli.incident_plot import plot
from railwatch.cli.incident_view import find_incident, print_head, print_part
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import (
    ConfigFile,
    DataDir,
    IncidentId,
    JsonFlag,
    data_dir_of,
    live_session,
    names_of_run,
    open_records,
)
from railwatch.operator.action_groups import capped_gpus
from railwatch.operator.entity_names import EntityNames
from railwatch.operator.incident_context import SampleEvidence, sample_evidence
from railwatch.operator.incident_story import (
    IncidentStory,
    TimelineEntry,
    meaning_of,
    path_text,
    story_fields,
    story_of_incident,
)
from railwatch.wiring.sample_store import open_sample_reader
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.entities import Entity, EntityKind
from telemetry.errors import EnvironmentLacksError, NotPermittedError, TransientError
from telemetry.recording import Recording, read_recording
from telemetry.records import Hypothesis, Incident, Record
from telemetry.series import SampleReader
from telemetry.topology import topology_of

logger = logging.getLogger(__name__)

_MOST_REASONS = 4
# heuristic: of a long timeline the beginning and the end are printed, so that it fits on one screen.
_FIRST_ENTRIES, _LAST_ENTRIES = 6, 6
# heuristic: a minute on either side shows the usual values.
_MARGIN_NS = 60 * NS_PER_S
# Node of the topology where no sample names one.
NODE = Entity(kind=EntityKind.NODE, key="node", name="node")


def incident(
    incident_id: IncidentId,
    recording: Annotated[
        Path | None,
        typer.Option(help="Read the incident from a recording; replay it if it holds none."),
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Plot the signals around the incident into a .svg or .png file.")
    ] = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain one incident: what was seen first, the likely cause, what was done, what to check next."""
    if plot_file is not None and plot_file.suffix not in (".svg", ".png"):
        raise typer.BadParameter(f"{plot_file}: expected a file name ending in .svg or .png", param_hint="--plot")
    samples: SampleReader | None = None
    wiring: Wiring | None = None
    if recording is not None:
        samples = read = read_recording(recording)
        records = _records_of(read, incident_id, config_file)
        found, names = find_incident(records, incident_id), EntityNames(_entities(read))
    else:
        folder = data_dir_of(config_file, data_dir)
        with closing(open_records(folder)) as store:
            found = find_incident(store.find("incident", limit=1000), incident_id)
            end_ns = (found.closed_ns or found.time_ns) + AFTER_NS
            records = [*store.between(found.opened_ns - BEFORE_NS, end_ns)]
        names = names_of_run(folder)
        wiring = _wiring_of_run(folder, config_file)
        with contextlib.suppress(EnvironmentLacksError):
            samples = open_sample_reader(load_config(config_file, os.environ), folder)
    story = story_of_incident(found, records, names)
    evidence = _sample_evidence(found, samples, wiring, capped_gpus(records))
    if plot_file is not None:
        plot(found, samples, plot_file)
    if as_json:
        print_json({**story_fields(story), **asdict(evidence)})
        return
    _print(story, evidence, names)
    if plot_file is not None:
        Console(highlight=False).print(f"plot written to {escape(str(plot_file))}", soft_wrap=True)


def _entities(read: Recording) -> Iterator[Entity]:
    for spec in read.tables:
        yield from spec.entities


def _records_of(read: Recording, incident_id: str, config_file: Path | None) -> Sequence[Record]:
    """Return the records of a recording, or those of its replay if it has no such incident."""
    own = [record for record in read.records if isinstance(record, Incident) and record.id.startswith(incident_id)]
    if own:
        return read.records
    settings = pipeline_settings(load_config(config_file, os.environ), simulated=bool(read.meta.simulated))
    replay: list[Record] = []
    with Console(stderr=True).status(f"replaying {escape(str(read.path))}") as shown:
        for record in replayed(read, recommending(settings)):
            replay.append(record)
            shown.update(f"replaying {escape(str(read.path))}: {iso_utc(record.time_ns)[11:19]}")
    return replay


def _wiring_of_run(folder: Path, config_file: Path | None) -> Wiring | None:
    """Return the wiring with which the node runs, or that of the configuration where none runs; None if none is given.

    A store has samples and no wiring.
    """
    try:
        config = live_session(folder).config
    except EnvironmentLacksError:
        config = load_config(config_file, os.environ)
    return config.topology.wiring()


def _sample_evidence(
    found: Incident, samples: SampleReader | None, wiring: Wiring | None, capped: Collection[str]
) -> SampleEvidence:
    """Return what the samples show; empty if none are kept or if a server cannot be read now."""
    if samples is None:
        return SampleEvidence()
    end_ns = (found.closed_ns or found.time_ns) + _MARGIN_NS
    try:
        frames = [*samples.frames(start_ns=found.opened_ns - _MARGIN_NS, stop_ns=end_ns)]
    except (TransientError, NotPermittedError) as err:
        logger.warning("explaining without samples: %s", err)
        return SampleEvidence()
    if isinstance(samples, Recording):
        topology = recorded_topology(samples)
    else:
        specs = {frame.spec.name: frame.spec for frame in frames}
        node = next((one for spec in specs.values() for one in spec.entities if one.kind is EntityKind.NODE), NODE)
        topology = topology_of(node, list(specs.values()), partial(feeding_of, wiring))
    return sample_evidence(found, frames, topology, capped=capped)


def _print(story: IncidentStory, samples: SampleEvidence, names: EntityNames) -> None:
    console = Console(highlight=False)
    one = story.incident
    print_head(console, one, names)
    _print_timeline(console, "what was seen, in order", story.seen, one.opened_ns)
    console.print("\n[bold]likely causes[/]")
    for hypothesis in one.hypotheses:
        _print_hypothesis(console, hypothesis, names)
    if not one.hypotheses:
        console.print("  none ranked: the record is of an earlier version", soft_wrap=True)
    print_part(console, "\nevidence against the likeliest cause", story.contradicts)
    print_part(console, "\nwhich signal moved first", samples.leads)
    print_part(console, "\nwhat held the clocks down", samples.clocks)
    _print_timeline(console, "what was done", story.done, one.opened_ns)
    if not story.done:
        print_part(console, "\nwhat was done", ["nothing"])
    print_part(console, "\nwhat is at stake", [story.stake])
    checks = [f"{number}. {text}" for number, text in enumerate(story.checks, 1)]
    more = "more: docs/runbook/causes.md, by cause"
    print_part(console, "\nwhat to check next", [*checks, *samples.offered, more])


def _print_timeline(console: Console, title: str, entries: tuple[TimelineEntry, ...], opened_ns: int) -> None:
    if not entries:
        return
    console.print(f"\n[bold]{title}[/]")
    hidden = len(entries) - _FIRST_ENTRIES - _LAST_ENTRIES
    for place, entry in enumerate(entries):
        if hidden > 1 and _FIRST_ENTRIES <= place < _FIRST_ENTRIES + hidden:
            if place == _FIRST_ENTRIES:
                console.print(f"  ... {hidden} more (--json prints all)")
            continue
        after_s = (entry.time_ns - opened_ns) / NS_PER_S
        text = escape(f"{entry.title or entry.kind}: {entry.text}")
        console.print(f"  [dim]{iso_utc(entry.time_ns)[11:23]} {after_s:+9.1f} s[/]  {text}", soft_wrap=True)


def _print_hypothesis(console: Console, one: Hypothesis, names: EntityNames) -> None:
    console.print(
        f"  [bold]{one.probability:5.0%}  {one.cause.value}[/]  {escape(meaning_of(one.cause))}", soft_wrap=True
    )
    for label, lines in (("for", one.for_), ("against", one.against)):
        for line in lines[:_MOST_REASONS]:
            console.print(f"         [dim]{label:<8}[/]{escape(line)}", soft_wrap=True)
    if one.path:
        console.print(f"         [dim]path    [/]{escape(path_text(one, names))}", soft_wrap=True)
    console.print(f"         [dim]disproved by[/] {escape(one.would_disprove)}", soft_wrap=True)
