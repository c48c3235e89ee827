"""``railwatch baselines``: list learnt baselines, and accept the present state of an entity as normal."""

import getpass
import json
import os
from collections.abc import Iterable
from typing import Annotated

import typer

from agent.ring.ring import Ring
from analytics.connectivity import Kinship
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, Who, data_dir_of, live_session
from railwatch.operator.commands import send_to_guard
from railwatch.run_context import RunContext
from telemetry.clock import SystemClock, iso_utc
from telemetry.command_events import event_of_command
from telemetry.commands import CommandVerb, new_command
from telemetry.entities import EntityKind, Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.record_json import to_json

app = typer.Typer(
    no_args_is_help=True,
    help="List the learnt baselines of a running node, and accept a new normal state.",
    epilog="Example: railwatch baselines list",
)

Why = Annotated[str, typer.Option("--why", help="What was changed or checked; kept in the record.")]


@app.command(name="list", epilog="Example: railwatch baselines list --json")
def list_command(
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List the baselines of a running node, learnt or frozen; a frozen one changes only when accepted."""
    context = live_session(data_dir_of(config_file, data_dir))
    topology = topology_of_run(context)
    rows = _learnt(context)
    if as_json:
        for row in rows:
            print_json(row)
        return
    shown = []
    for row in rows:
        ratio = float(str(row["learnt_ratio"]))
        name = _name(topology, str(row["entity_id"]))
        frozen_ns = row.get("frozen_ns")
        since = f" since {iso_utc(int(str(frozen_ns)))[:10]}" if frozen_ns is not None else ""
        state = f"frozen{since}" if ratio >= 1.0 else f"learning, {ratio:.0%}"
        shown.append((name, str(row["detector"]), str(row["what"]), state))
    print_table("baselines", ("entity", "detector", "baseline", "state"), shown)


@app.command(epilog='Example: railwatch baselines accept gpu2 --why "new thermal pads, torque checked"')
def accept(
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Name or id; a node means all of its parts.")],
    why: Why,
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Accept the present state of an entity as normal: its baselines are learnt again, and their findings end.

    Findings without a baseline, such as a rail below its limit, stay open.
    """
    context = live_session(data_dir_of(config_file, data_dir))
    topology = topology_of_run(context)
    learnt = {row["entity_id"] for row in _learnt(context)}
    known = [one for one in topology.entities if one.id in learnt or one.kind is EntityKind.NODE]
    matches = [one.id for one in known if entity in (one.id, one.name, one.key)]
    if len(matches) != 1:
        typer.echo(
            f"railwatch: {entity}: {'no baseline of that name' if not matches else 'name of several entities'}; "
            f"expected one of {', '.join(one.name for one in known)}",
            err=True,
        )
        raise typer.Exit(1)
    accept_entities(context, matches, why=why, who=who, as_json=as_json)


def topology_of_run(context: RunContext) -> Topology:
    """Return the topology of a run: which supply feeds which GPU."""
    ring = Ring.attach(context.ring_path)
    topology = ring.topology
    ring.close()
    return topology


def _with_contents(entity_ids: Iterable[str], topology: Topology) -> tuple[str, ...]:
    """Return the entities, with the parts of each node: a node that was serviced is accepted as a whole."""
    kinship = Kinship.of(topology)
    found: dict[str, None] = {}
    for entity_id in entity_ids:
        found[entity_id] = None
        if kinship.knows(entity_id) and topology.entity(entity_id).kind is EntityKind.NODE:
            found.update(dict.fromkeys(sorted(kinship.descendants(entity_id))))
    return tuple(found)


def accept_entities(
    context: RunContext, entity_ids: Iterable[str], *, why: str, who: str | None, as_json: bool
) -> None:
    """Send one acceptance for each entity, with the parts of each node, and print them.

    Raises TransientError where the guard does not take them.
    """
    topology = topology_of_run(context)
    if not why.strip():
        raise typer.BadParameter("got no text; expected what was changed or checked", param_hint="--why")
    who, now_ns = (who or "").strip() or current_user(), SystemClock().utc_ns()
    try:
        commands = [
            new_command(CommandVerb.ACCEPT_BASELINE, entity_id, who=who, why=why.strip(), now_ns=now_ns)
            for entity_id in _with_contents(entity_ids, topology)
        ]
    except ValueError as err:
        raise typer.BadParameter(str(err)) from err
    send_to_guard(context, commands)
    for command in commands:
        if as_json:
            print_json(to_json(command, simulated=context.simulated))
        else:
            typer.echo(event_of_command(command, name=_name(topology, command.subject)).message)
    if not as_json:
        typer.echo("its baselines are learnt again; until then nothing is held against them")


def _learnt(context: RunContext) -> list[dict[str, object]]:
    try:
        rows: list[dict[str, object]] = json.loads(context.baselines_path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise EnvironmentLacksError(
            "the guard of this run has no baselines yet; each takes minutes to hours of load, try again later"
        ) from err
    return rows


def _name(topology: Topology, entity_id: str) -> str:
    return next((one.name for one in topology.entities if one.id == entity_id), entity_id)


def current_user() -> str:
    """Return the name of the user who runs the command, under sudo that of the invoking user."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
