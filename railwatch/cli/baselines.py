"""``railwatch baselines``: what is learnt of each entity, and accepting that one is as it should be now."""

import getpass
import json
import os
from collections.abc import Iterable, Sequence
from threading import Event as Flag
from typing import Annotated

import typer

from agent.ring.ring import Ring
from analytics.connectivity import Kinship
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session
from railwatch.operator.guard_commands import ANSWER_WITHIN_S
from railwatch.session import Session
from telemetry.clock import SystemClock, iso_utc
from telemetry.entities import EntityKind, Topology
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.records import Event, EventKind, Severity, to_json

_LOOK_EVERY_S = 0.1

app = typer.Typer(
    no_args_is_help=True,
    help="What is learnt of each entity and then frozen, and accepting another; of a run that goes on.",
)

Why = Annotated[str, typer.Option("--why", help="What was changed or looked at; stands in the record.")]
Who = Annotated[str | None, typer.Option("--who", help="Who says so; whoever runs the command if nobody is named.")]


@app.command(name="list", epilog="Example: railwatch baselines list --json")
def list_command(
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List what is learnt of each entity, and how far that has come; what is frozen stays until it is accepted.

    It is asked of the guard of a run that goes on: without one there is nothing to list.
    """
    session = live_session(data_dir_of(config_file, data_dir))
    topology = topology_of_run(session)
    rows = _learnt(session)
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
    print_table("baselines", ("entity", "detector", "what is learnt", "state"), shown)


@app.command(epilog='Example: railwatch baselines accept gpu2 --why "new thermal pads, torque checked"')
def accept(
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Name or id; a node means all that it holds.")],
    why: Why,
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Accept that an entity is as it should be now: its baselines are learnt anew, what they found ends.

    Findings that need no baseline, such as a rail below its limit, go on.
    """
    session = live_session(data_dir_of(config_file, data_dir))
    topology = topology_of_run(session)
    learnt = {row["entity_id"] for row in _learnt(session)}
    known = [one for one in topology.entities if one.id in learnt or one.kind is EntityKind.NODE]
    meant = [one.id for one in known if entity in (one.id, one.name, one.key)]
    if len(meant) != 1:
        typer.echo(
            f"{entity}: {'nothing of that name is learnt' if not meant else 'several are called so'}; expected one of "
            f"{', '.join(one.name for one in known)}",
            err=True,
        )
        raise typer.Exit(1)
    tell(session, with_contents(meant, topology), topology, why=why, who=who, as_json=as_json)


def topology_of_run(session: Session) -> Topology:
    """Return who feeds whom in a run."""
    ring = Ring.attach(session.ring_path)
    topology = ring.topology
    ring.close()
    return topology


def with_contents(entity_ids: Iterable[str], topology: Topology) -> tuple[str, ...]:
    """Return the entities, and for a node what it holds: people accept a node that was worked on as a whole."""
    kinship = Kinship.of(topology)
    found: dict[str, None] = {}
    for entity_id in entity_ids:
        found[entity_id] = None
        if kinship.knows(entity_id) and topology.entity(entity_id).kind is EntityKind.NODE:
            found.update(dict.fromkeys(sorted(kinship.descendants(entity_id))))
    return tuple(found)


def tell(
    session: Session, entity_ids: Sequence[str], topology: Topology, *, why: str, who: str | None, as_json: bool
) -> None:
    """Write down who accepts what and why, and wait until the guard has heard it; TransientError where it does not."""
    if not why.strip():
        raise typer.BadParameter("say what was changed or looked at", param_hint="--why")
    who = (who or "").strip() or current_user()
    clock = SystemClock()
    now_ns = clock.utc_ns()
    told = [
        Event(
            id=f"baseline:{entity_id}:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.BASELINE,
            entity_id=entity_id,
            code=None,
            severity=Severity.INFO,
            message=f"{_name(topology, entity_id)} accepted as it is by {who}: {why.strip()}",
            sources=("person",),
        )
        for entity_id in entity_ids
    ]
    heard = session.journal_reader("guard")
    heard.skip_to_end()
    journal = session.journal_writer("person")
    for event in told:
        journal.append(event)
    journal.close()
    missing, until_s, wait = {event.id for event in told}, clock.monotonic_s() + ANSWER_WITHIN_S, Flag()
    while missing and clock.monotonic_s() < until_s:
        missing -= {record.id for record in heard.read()}
        if missing:
            wait.wait(_LOOK_EVERY_S)
    if missing:
        raise TransientError(f"{session.run_dir}: the guard did not hear of it in {ANSWER_WITHIN_S:g} s; say it again")
    for event in told:
        if as_json:
            print_json(to_json(event, simulated=session.simulated))
        else:
            typer.echo(event.message)
    if not as_json:
        typer.echo("its baselines are learnt anew; until then nothing is held against them")


def _learnt(session: Session) -> list[dict[str, object]]:
    try:
        rows: list[dict[str, object]] = json.loads(session.baselines_path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise EnvironmentLacksError(
            "the guard of this run has not learnt anything yet: it tells of it from its first seconds on, and each "
            "baseline takes minutes to hours of load; ask again"
        ) from err
    return rows


def _name(topology: Topology, entity_id: str) -> str:
    return next((one.name for one in topology.entities if one.id == entity_id), entity_id)


def current_user() -> str:
    """Return who runs the command."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
