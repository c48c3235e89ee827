"""``railwatch incidents``: what was found, and the numbers that say so."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from analytics.calibration.achieved import PAGE_FROM
from config.loading import load_config
from railwatch.cli.baselines import Who, Why, tell, topology_of_run, with_contents
from railwatch.cli.incident_lookup import find_incident
from railwatch.cli.printing import SEVERITY_STYLE, describe, print_json, print_table
from railwatch.cli.run_folder import (
    ConfigFile,
    DataDir,
    JsonFlag,
    check_data_dir,
    data_dir_of,
    live_session,
    open_records,
)
from railwatch.session import run_dir_of
from railwatch.wiring.page_count import PAGES, read_count
from telemetry.clock import iso_utc
from telemetry.records import Action, Decision, Incident, IncidentState, Outcome, Record, to_json

_MOST_HYPOTHESES = 3

app = typer.Typer(no_args_is_help=True, help="What was found, and the numbers that say so.")


@app.command(name="list", epilog="Example: railwatch incidents list --open --json")
def list_command(
    only_open: Annotated[bool, typer.Option("--open", help="Only what is not closed.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List incidents, newest first."""
    records = open_records(data_dir_of(config_file, data_dir))
    found = [item for item in records.find("incident", limit=limit) if isinstance(item, Incident)]
    found = [item for item in found if not only_open or item.state is not IncidentState.CLOSED]
    simulated = {incident.id: records.simulated(incident.id) for incident in found}
    records.close()
    if as_json:
        for incident in found:
            print_json(to_json(incident, simulated=simulated[incident.id]))
        return
    console = Console(highlight=False)
    for incident in found:
        style = SEVERITY_STYLE[incident.severity]
        console.print(
            f"{incident.id}  {iso_utc(incident.opened_ns)[:19]}Z  [bold]{incident.state.value}[/]  "
            f"[{style}]{incident.severity.value} {incident.cause.value}[/]  "
            f"{incident.impact_gpu_hours:.1f} GPU-hours at stake",
            soft_wrap=True,
        )
        console.print(f"    {escape(incident.summary)}", soft_wrap=True)
    if not found:
        console.print("no incidents")


@app.command(epilog="Example: railwatch incidents show i-7f2a7a248c")
def show(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or its beginning.")],
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one incident: its evidence, what was decided and done, and whether it helped."""
    records = open_records(data_dir_of(config_file, data_dir))
    try:
        incident = find_incident(records.find("incident", limit=1000), incident_id)
    except typer.Exit:
        records.close()
        raise
    linked = _linked(records.between(incident.opened_ns, 1 << 62), incident.id)
    simulated = records.simulated(incident.id)
    records.close()
    if as_json:
        for record in (incident, *linked):
            print_json(to_json(record, simulated=simulated))
        return
    console = Console(highlight=False)
    style = SEVERITY_STYLE[incident.severity]
    console.print(
        f"[{style}]{incident.severity.value} {incident.cause.value}[/]  {incident.id}  {incident.state.value}",
        soft_wrap=True,
    )
    console.print(escape(incident.summary), soft_wrap=True)
    if incident.silence is not None:
        console.print(f"[yellow]{escape(incident.silence)}[/]", soft_wrap=True)
    likely = [f"{one.probability:.0%} {one.cause.value}" for one in incident.hypotheses[:_MOST_HYPOTHESES]]
    if likely:
        console.print(f"likely: {', '.join(likely)}  [dim]railwatch explain incident {incident.id}[/]", soft_wrap=True)
    for finding in incident.findings:
        rows = [(item.name, f"{item.value:.6g}", item.unit) for item in finding.evidence]
        print_table(
            f"{finding.detector} on {finding.entity_id} ({finding.status.value})", ("evidence", "value", "unit"), rows
        )
    for record in linked:
        console.print(f"[dim]{iso_utc(record.time_ns)[11:19]}[/]  {describe(record)}", soft_wrap=True)


@app.command(epilog='Example: railwatch incidents accept i-7f2a7a248c --why "cable replaced, torque checked"')
def accept(
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or its beginning.")],
    why: Why,
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Accept that what an incident is about is as it should be now: its baselines are learnt anew."""
    folder = data_dir_of(config_file, data_dir)
    session = live_session(folder)
    records = open_records(folder)
    try:
        incident = find_incident(records.find("incident", limit=1000), incident_id)
    finally:
        records.close()
    concerned = dict.fromkeys((incident.entity_id, *incident.affected))
    tell(
        session,
        with_contents(concerned, topology_of_run(session)),
        topology_of_run(session),
        why=why,
        who=who,
        as_json=as_json,
    )


@app.command(epilog="Example: railwatch incidents rate --json")
def rate(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Show how often people were paged, with its bounds, against the budget."""
    config = load_config(config_file, os.environ)
    folder = data_dir_of(config_file, data_dir)
    check_data_dir(folder)
    live = run_dir_of(folder) / PAGES
    count = read_count(live if live.exists() else folder / PAGES)
    achieved = count.rate(config.analytics.pages_per_node_month)
    if as_json:
        print_json(asdict(achieved))
        return
    typer.echo(achieved.words)
    for words in _no_pages(folder, frozenset(count.counted)):
        typer.echo(words)


def _no_pages(folder: Path, counted: frozenset[str]) -> list[str]:
    """Return of each kept incident that was no page why, by reason."""
    records = open_records(folder)
    try:
        found = [one for one in records.find("incident", limit=1000) if isinstance(one, Incident)]
        reasons = [(_why_no_page(one, records.simulated(one.id)), one.id) for one in found if one.id not in counted]
    finally:
        records.close()
    by_reason: dict[str, list[str]] = {}
    for reason, name in reasons:
        by_reason.setdefault(reason, []).append(name)
    return [
        f"no page, {reason}: {len(names)} (such as {names[0]})" if len(names) > 1 else f"no page, {reason}: {names[0]}"
        for reason, names in by_reason.items()
    ]


def _why_no_page(incident: Incident, simulated: bool | None) -> str:
    if incident.severity.rank < PAGE_FROM.rank:
        return f"below {PAGE_FROM.value}"
    if incident.silence is not None:
        return "a person asked for silence"
    if simulated:
        return "of a simulated node, whose count ends with its run"
    return "from before the count began"


def _linked(records: tuple[Record, ...], incident_id: str) -> list[Record]:
    return [
        record
        for record in sorted(records, key=lambda item: item.time_ns)
        if isinstance(record, Decision | Action | Outcome) and record.incident_id == incident_id
    ]
