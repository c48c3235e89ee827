"""``railwatch incidents``: list and show incidents, and accept what caused one as normal."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from analytics.calibration.achieved import PAGE_FROM
from config.loading import load_config
from railwatch.cli.action_view import print_records
from railwatch.cli.baselines import Why, accept_entities
from railwatch.cli.incident_view import find_incident, print_incident
from railwatch.cli.printing import SEVERITY_STYLE, print_json, print_table
from railwatch.cli.run_folder import (
    ConfigFile,
    DataDir,
    IncidentId,
    JsonFlag,
    Verbose,
    Who,
    check_data_dir,
    data_dir_of,
    live_session,
    names_of_run,
    open_records,
)
from railwatch.operator.entity_names import EntityNames
from railwatch.run_context import run_dir_of
from railwatch.wiring.page_count import PAGES, read_count
from telemetry.clock import iso_utc
from telemetry.errors import RailwatchError
from telemetry.quantities import quantity, shortened
from telemetry.record_json import to_json
from telemetry.records import Action, Decision, Incident, IncidentState, Outcome, Record

app = typer.Typer(
    no_args_is_help=True,
    help="List and show incidents, with the evidence and what was done.",
    epilog="Example: railwatch incidents list --open",
)


@app.command(name="list", epilog="Example: railwatch incidents list --open --json")
def list_command(
    only_open: Annotated[bool, typer.Option("--open", help="Only incidents that are not closed.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of incidents, newest first.")] = 50,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List incidents, newest first."""
    folder = data_dir_of(config_file, data_dir)
    with closing(open_records(folder)) as records:
        found = [item for item in records.find("incident", limit=limit) if isinstance(item, Incident)]
        found = [item for item in found if not only_open or item.state is not IncidentState.CLOSED]
        simulated = {incident.id: records.simulated(incident.id) for incident in found}
    if as_json:
        for incident in found:
            print_json(to_json(incident, simulated=simulated[incident.id]))
        return
    console, names = Console(highlight=False), names_of_run(folder)
    for incident in found:
        style = SEVERITY_STYLE[incident.severity]
        console.print(
            f"{incident.id}  {iso_utc(incident.opened_ns)[:19]}Z  [bold]{incident.state.value}[/]  "
            f"[{style}]{incident.severity.value} {incident.cause.value}[/]  "
            f"expected loss {incident.impact_gpu_hours:.1f} GPU-hours",
            soft_wrap=True,
        )
        console.print(f"    {escape(names.in_text(shortened(incident.summary)))}", soft_wrap=True)
    if not found:
        console.print("no incidents")
        return
    console.print(f"[dim]more: railwatch incidents show {found[0].id}[/]")


@app.command(epilog="Example: railwatch incidents show i-7f2a7a248c")
def show(
    incident_id: IncidentId,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    verbose: Verbose = False,
    as_json: JsonFlag = False,
) -> None:
    """Show one incident: how bad, the evidence, what was done, whether it helped, what to check next."""
    folder = data_dir_of(config_file, data_dir)
    with closing(open_records(folder)) as records:
        incident = find_incident(records.find("incident", limit=1000), incident_id)
        linked = _linked(records.between(incident.opened_ns, 1 << 62), incident.id)
        simulated = records.simulated(incident.id)
    if as_json:
        for record in (incident, *linked):
            print_json(to_json(record, simulated=simulated))
        return
    console, names = Console(highlight=False), names_of_run(folder)
    print_incident(console, incident, linked, names, has_routes=_has_routes(folder, config_file))
    if verbose:
        _print_verbose(console, incident, linked, names)


def _has_routes(data_dir: Path, config_file: Path | None) -> bool | None:
    """Return True if notification routes are configured, by the live run or the file; None if neither is known."""
    if config_file is not None:
        return bool(load_config(config_file, os.environ).actuators.notification.routes)
    try:
        return bool(live_session(data_dir).config.actuators.notification.routes)
    except RailwatchError:
        return None


def _print_verbose(console: Console, incident: Incident, linked: Sequence[Record], names: EntityNames) -> None:
    """Print all evidence and every record, with the full ids of entities."""
    for finding in incident.findings:
        rows = [(item.name, quantity(item.value, item.unit, item.name)) for item in finding.evidence]
        name, uuid = names.name(finding.entity_id), finding.entity_id.removeprefix("gpu:")
        where = name if uuid == finding.entity_id else f"{name} {uuid}"
        print_table(f"{finding.detector} on {where} ({finding.status.value})", ("evidence", "value"), rows)
    print_records(console, linked)


@app.command(epilog='Example: railwatch incidents accept i-7f2a7a248c --why "cable replaced, torque checked"')
def accept(
    incident_id: IncidentId,
    why: Why,
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Accept the present state of what an incident is about as normal; its baselines are learnt again."""
    folder = data_dir_of(config_file, data_dir)
    context = live_session(folder)
    with closing(open_records(folder)) as records:
        incident = find_incident(records.find("incident", limit=1000), incident_id)
    accept_entities(context, (incident.entity_id, *incident.affected), why=why, who=who, as_json=as_json)


@app.command(epilog="Example: railwatch incidents rate --json")
def rate(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Show the rate of pages with its 95 % bounds, and the budget it is held against."""
    config = load_config(config_file, os.environ)
    folder = data_dir_of(config_file, data_dir)
    check_data_dir(folder)
    live = run_dir_of(folder) / PAGES
    count = read_count(live if live.exists() else folder / PAGES)
    achieved = count.rate(config.analytics.pages_per_node_month)
    if as_json:
        print_json(asdict(achieved))
        return
    typer.echo(achieved.summary)
    for line in _no_pages(folder, frozenset(count.counted)):
        typer.echo(line)


def _no_pages(folder: Path, counted: frozenset[str]) -> list[str]:
    """Return one line per reason why a kept incident was not counted as a page."""
    with closing(open_records(folder)) as records:
        found = [one for one in records.find("incident", limit=1000) if isinstance(one, Incident)]
        reasons = [(_why_no_page(one, records.simulated(one.id)), one.id) for one in found if one.id not in counted]
    by_reason: dict[str, list[str]] = {}
    for reason, name in reasons:
        by_reason.setdefault(reason, []).append(name)
    return [
        f"not counted, {reason}: {len(names)} incidents, e.g. {names[0]}"
        if len(names) > 1
        else f"not counted, {reason}: {names[0]}"
        for reason, names in by_reason.items()
    ]


def _why_no_page(incident: Incident, simulated: bool | None) -> str:
    if incident.severity.rank < PAGE_FROM.rank:
        return f"severity below {PAGE_FROM.value}"
    if incident.silence is not None:
        return "silenced by an operator"
    if simulated:
        return "of a simulated node, whose count ends with the run"
    return "older than the count"


def _linked(records: tuple[Record, ...], incident_id: str) -> list[Record]:
    return [
        record
        for record in sorted(records, key=lambda item: item.time_ns)
        if isinstance(record, Decision | Action | Outcome) and record.incident_id == incident_id
    ]
