"""``railwatch actions``: list, show, verify and release what railwatch changed."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agent.actuation.client import ActuatorClient
from railwatch.cli import approvals
from railwatch.cli.action_view import print_groups, print_records, print_stories, records_of, stories_of
from railwatch.cli.actuator_connection import actuator_of_run, configured_actuator_socket, has_ended
from railwatch.cli.baselines import current_user
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import (
    ConfigFile,
    DataDir,
    JsonFlag,
    Verbose,
    Who,
    data_dir_of,
    names_of_run,
    open_records,
)
from railwatch.operator.entity_names import EntityNames
from railwatch.operator.leftovers import has_leftovers, release_leftovers, state_dir_of
from railwatch.operator.release import held_outside, release_outside
from railwatch.run_context import RunContext
from telemetry.clock import SystemClock
from telemetry.commands import WHO_MAX, WHY_MAX, release_reason
from telemetry.errors import EnvironmentLacksError
from telemetry.record_json import to_json
from telemetry.records import IN_FORCE, Action, ActionState, Incident

app = typer.Typer(
    no_args_is_help=True,
    help="List, show, verify, approve and release actions.",
    epilog="Example: railwatch actions list --in-force",
)
app.add_typer(approvals.app)

# The reason sent to the actuator is at most WHY_MAX long with the name of the operator in front.
_WHY_MAX = WHY_MAX - len(release_reason("x" * WHO_MAX, "x")) + 1


@app.command(name="list", epilog="Example: railwatch actions list --in-force")
def list_command(
    in_force: Annotated[bool, typer.Option("--in-force", help="Only actions in force now.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of knob changes to read, newest first.")] = 50,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List actions, one entry per knob and incident: entities, settings, state, owner and reason."""
    folder = data_dir_of(config_file, data_dir)
    records = open_records(folder)
    states = [state.value for state in IN_FORCE] if in_force else [None]
    found = [
        item
        for state in states
        for item in records.find("action", limit=limit, where=None if state is None else {"state": state})
        if isinstance(item, Action)
    ]
    simulated = {action.id: records.simulated(action.id) for action in found}
    changes = [] if as_json else [item for one in found for item in records.history(one.id) if isinstance(item, Action)]
    records.close()
    names = names_of_run(folder)
    if as_json or not found:
        _print_actions(found, simulated, names, as_json=as_json)
        return
    print_groups(Console(highlight=False), changes, names, run_ended=has_ended(folder))
    typer.echo(f"more: railwatch actions show {found[0].incident_id}")


@app.command(epilog="Example: railwatch actions show clock_cap:i-7f2a7a248c --json")
def show(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="Action or incident id, or the first characters of it.")],
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    verbose: Verbose = False,
    as_json: JsonFlag = False,
) -> None:
    """Show one action, or all of an incident: settings, evidence, steps and outcome."""
    folder = data_dir_of(config_file, data_dir)
    with closing(open_records(folder)) as records:
        stories = stories_of(records, wanted)
        simulated = records.simulated(stories[0].changes[-1].id)
    if as_json:
        for record in records_of(stories):
            print_json(to_json(record, simulated=simulated))
        return
    console = Console(highlight=False)
    print_stories(console, stories, names_of_run(folder), run_ended=has_ended(folder))
    if verbose:
        print_records(console, (one for one in records_of(stories) if not isinstance(one, Incident)))


@app.command(epilog='Example: railwatch actions release i-7f2a7a248c --reason "cable reseated"')
def release(
    incident_id: Annotated[str | None, typer.Argument(metavar="INCIDENT", help="Incident id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Release every action in force.")] = False,
    why: approvals.Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Release actions: knobs return to the setting found before; the incident gets no new action until it closes."""
    if (incident_id is None) is not everything:
        raise typer.BadParameter("expected one INCIDENT or --all")
    who, why = _operator(who, why)
    folder = data_dir_of(config_file, data_dir)
    client, context = _actuator(config_file, folder)
    outside = () if context is None else held_outside(context)
    held = {action.incident_id for action in client.in_force()} | set(outside)
    wanted = held if everything else {incident_id} & held
    if not everything and not wanted:
        typer.echo(f"railwatch: {incident_id}: no action in force", err=True)
        raise typer.Exit(1)
    released = _release(client, filter(None, wanted), release_reason(who, why))
    client.close()
    if context is not None:
        released += release_outside(context, incident_id, SystemClock(), who=who, why=why)
    simulated = {action.id: _is_simulated(context) for action in released}
    _print_actions(released, simulated, names_of_run(folder), as_json=as_json)
    if not as_json:
        for name in sorted({action.incident_id for action in released}):
            typer.echo(f"no new action for {name} until it closes")


@app.command(epilog="Example: railwatch actions verify --json")
def verify(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Read back every knob and drain in force and compare it with the journal; exit status 1 if one differs."""
    folder = data_dir_of(config_file, data_dir)
    client, context = _actuator(config_file, folder)
    checks = client.verify()
    client.close()
    if context is not None:
        from railwatch.operator.verify import verify_outside  # noqa: PLC0415 -- loads every actuator

        checks = (*checks, *verify_outside(context, SystemClock()))
    names = names_of_run(folder)
    for check in checks:
        if as_json:
            print_json({**asdict(check), "words": check.summary})  # the earlier name of `summary`
        else:
            mark = {True: "ok", False: "DIFFERS", None: "unknown"}[check.agrees]
            typer.echo(f"{mark:8} {names.name(check.entity_id)}  {check.knob}  {check.summary}")
    if not checks and not as_json:
        typer.echo("nothing is in force")
    if any(check.agrees is False for check in checks):
        raise typer.Exit(1)


@app.command(name="revert-all", epilog="Example: railwatch actions revert-all --config /etc/railwatch/railwatch.yaml")
def revert_all(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Release everything that railwatch set on the GPUs, including what an earlier run left behind.

    Exit status 1 if something could not be released. While railwatch runs, its actuator releases, and no incident with
    an action gets a new one until it closes.
    """
    folder = data_dir_of(config_file, data_dir)
    try:
        client, context = _actuator(config_file, folder)
    except EnvironmentLacksError:
        state = state_dir_of(folder)
        if configured_actuator_socket(config_file) or not has_leftovers(state):
            raise
        done = list(release_leftovers(state, reason=release_reason("", "")))
        _finish(done, {action.id: False for action in done}, names_of_run(folder), rest=0, as_json=as_json)
        return
    who, _ = _operator(None, "")
    done = _release(client, {action.incident_id for action in client.in_force()}, release_reason(who, ""))
    rest = len(client.in_force())
    client.close()
    if context is not None:
        done += release_outside(context, None, SystemClock(), who=who, why="")
    simulated = {action.id: _is_simulated(context) for action in done}
    _finish(done, simulated, names_of_run(folder), rest=rest, as_json=as_json)


def _finish(
    done: list[Action], simulated: Mapping[str, bool | None], names: EntityNames, *, rest: int, as_json: bool
) -> None:
    _print_actions(done, simulated, names, as_json=as_json)
    failed = [action for action in done if action.state is ActionState.FAILED]
    if rest or failed:
        typer.echo(f"{max(rest, len(failed))} not released yet; the actuator keeps trying", err=True)
        raise typer.Exit(1)


def _release(client: ActuatorClient, incidents: Iterable[str], reason: str) -> list[Action]:
    return [action for name in sorted(incidents) for action in client.release_incident(name, reason=reason, bar=True)]


def _operator(who: str | None, why: str) -> tuple[str, str]:
    """Return operator and reason as single lines; BadParameter where one of them is too long."""
    who, why = " ".join((who or "").split()) or current_user(), " ".join(why.split())
    if len(who) > WHO_MAX or len(why) > _WHY_MAX:
        raise typer.BadParameter(f"expected at most {WHO_MAX} characters of --who and {_WHY_MAX} of --reason")
    return who, why


def _actuator(config_file: Path | None, folder: Path) -> tuple[ActuatorClient, RunContext | None]:
    """Return the actuator of the run on this data folder, or the privileged one of the configuration."""
    return actuator_of_run(folder, privileged=configured_actuator_socket(config_file))


def _is_simulated(context: RunContext | None) -> bool:
    return context is not None and context.simulated


def _print_actions(
    actions: Sequence[Action], simulated: Mapping[str, bool | None], names: EntityNames, *, as_json: bool
) -> None:
    if as_json:
        for action in actions:
            print_json(to_json(action, simulated=simulated[action.id]))
        return
    print_groups(Console(highlight=False), actions, names)
    if not actions:
        typer.echo("no actions")
