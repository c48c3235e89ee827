"""``railwatch actions``: what was changed on the hardware, and taking it back."""

from collections.abc import Mapping
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from agent.actuation.client import ActuatorClient
from agent.guard.pipeline import IN_FORCE
from railwatch.cli.output import describe, print_json
from railwatch.cli.place import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session, open_records
from telemetry.clock import iso_utc
from telemetry.records import Action, to_json

app = typer.Typer(no_args_is_help=True, help="What was changed on the hardware, and taking it back.")


@app.command(name="list", epilog="Example: railwatch actions list --in-force")
def list_command(
    in_force: Annotated[bool, typer.Option("--in-force", help="Only what stands now.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List actions: what was found, what was set, what was read back, until when."""
    records = open_records(data_dir_of(config_file, data_dir))
    states = [state.value for state in IN_FORCE] if in_force else [None]
    found = [
        item
        for state in states
        for item in records.find("action", limit=limit, where=None if state is None else {"state": state})
        if isinstance(item, Action)
    ]
    simulated = {action.id: records.simulated(action.id) for action in found}
    records.close()
    _show(found, simulated, as_json=as_json)


@app.command(epilog="Example: railwatch actions release i-7f2a7a248c")
def release(
    incident_id: Annotated[str | None, typer.Argument(metavar="INCIDENT", help="Whose actions to take back.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Take back every action.")] = False,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Take actions back: settings go to what was found, and the incident gets no new action until it closes."""
    if (incident_id is None) is not everything:
        raise typer.BadParameter("name one INCIDENT or --all")
    session = live_session(data_dir_of(config_file, data_dir))
    client = ActuatorClient(session.actuator_socket)
    reason = "taken back by hand"
    held = {action.incident_id for action in client.in_force()}
    wanted = held if everything else {incident_id} & held
    if not everything and not wanted:
        typer.echo(f"{incident_id}: no action in force", err=True)
        raise typer.Exit(1)
    released = [
        action
        for name in sorted(filter(None, wanted))
        for action in client.release_incident(name, reason=reason, bar=True)
    ]
    client.close()
    _show(released, {action.id: session.simulated for action in released}, as_json=as_json)
    if not as_json:
        for name in sorted({action.incident_id for action in released}):
            typer.echo(f"railwatch will not act on {name} again until it closes")


def _show(actions: list[Action], simulated: Mapping[str, bool | None], *, as_json: bool) -> None:
    if as_json:
        for action in actions:
            print_json(to_json(action, simulated=simulated[action.id]))
        return
    console = Console(highlight=False)
    for _, same in groupby(actions, key=lambda action: (action.decision_id, action.state, describe(action))):
        alike = list(same)
        first = alike[0]
        lease = (
            ""
            if first.lease_until_ns is None or first.state not in IN_FORCE
            else f"  lease until {iso_utc(first.lease_until_ns)[11:19]}Z"
        )
        who = ", ".join(action.entity_id.removeprefix("gpu:")[:12] for action in alike)
        console.print(f"{iso_utc(first.time_ns)[:19]}Z  {describe(first)}{lease}", soft_wrap=True)
        console.print(f"    {first.incident_id}  {who}  [dim]{escape(first.reason)}[/]", soft_wrap=True)
    if not actions:
        console.print("no actions")
