"""``railwatch actions``: what was changed, by whom and why, and taking it back."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from agent.actuation.client import ActuatorClient
from agent.guard.foresight import ahead_of
from railwatch.cli import approvals
from railwatch.cli.action_history import ActionStory, stories_of
from railwatch.cli.actuator_connection import actuator_of_run, configured_actuator_socket, has_ended
from railwatch.cli.baselines import Who, current_user
from railwatch.cli.printing import describe, print_json, record_fields
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of, open_records
from railwatch.operator.leftovers import left_in, state_dir_of, take_back
from railwatch.operator.release import held_outside, take_back_outside
from railwatch.session import Session
from rules.engine.operator_events import WHO_MAX, WHY_MAX
from telemetry.clock import SystemClock, iso_utc
from telemetry.errors import EnvironmentLacksError
from telemetry.records import IN_FORCE, Action, ActionState, Decision, Outcome, Record

app = typer.Typer(no_args_is_help=True, help="What was changed, by whom and why, and taking it back.")
app.add_typer(approvals.app)

BY_HAND = "taken back by hand"
# What the actuator takes as a reason is as long as WHY_MAX with the name and our words before it.
_WHY_MAX = WHY_MAX - WHO_MAX - len(f"{BY_HAND} by : ")


@app.command(name="list", epilog="Example: railwatch actions list --in-force")
def list_command(
    in_force: Annotated[bool, typer.Option("--in-force", help="Only what stands now.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """List actions: what was found, what was set, what was read back, until when, by whom and why."""
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
    records.close()
    _show(found, simulated, as_json=as_json, over=has_ended(folder))
    if found and not as_json:
        typer.echo(f"railwatch actions show {found[0].incident_id} tells why, and what came of it")


@app.command(epilog="Example: railwatch actions show clock_cap:i-7f2a7a248c --json")
def show(
    wanted: Annotated[str, typer.Argument(metavar="ID", help="An action's or an incident's id, or its beginning.")],
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Report the story of an action, or of each of an incident: the evidence, the decision, every change, the outcome."""
    records = open_records(data_dir_of(config_file, data_dir))
    try:
        stories = stories_of(records, wanted)
        simulated = records.simulated(stories[0].changes[-1].id)
    finally:
        records.close()
    if as_json:
        told: list[Record] = []
        for record in (record for story in stories for record in story.records):
            if record not in told:  # actions of one incident share it, and a decision
                told.append(record)
                print_json(record_fields(record, simulated=simulated))
        return
    for story in stories:
        _tell(story)


@app.command(epilog='Example: railwatch actions release i-7f2a7a248c --reason "cable reseated"')
def release(
    incident_id: Annotated[str | None, typer.Argument(metavar="INCIDENT", help="Whose actions to take back.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Take back every action.")] = False,
    why: approvals.Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Take actions back: settings go to what was found, and the incident gets no new action until it closes."""
    if (incident_id is None) is not everything:
        raise typer.BadParameter("name one INCIDENT or --all")
    reason = _by_hand(who, why)
    client, session = _actuator(config_file, data_dir)
    outside = () if session is None else held_outside(session)
    held = {action.incident_id for action in client.in_force()} | set(outside)
    wanted = held if everything else {incident_id} & held
    if not everything and not wanted:
        typer.echo(f"railwatch: {incident_id}: no action in force", err=True)
        raise typer.Exit(1)
    released = _release(client, filter(None, wanted), reason)
    client.close()
    if session is not None:
        released += take_back_outside(session, incident_id, SystemClock(), reason=reason)
    _show(released, {action.id: _is_simulated(session) for action in released}, as_json=as_json)
    if not as_json:
        for name in sorted({action.incident_id for action in released}):
            typer.echo(f"railwatch will not act on {name} again until it closes")


@app.command(epilog="Example: railwatch actions verify --json")
def verify(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Read every knob and every drain that is held and compare it with the journal; exit status 1 where one differs."""
    client, session = _actuator(config_file, data_dir)
    checks = client.verify()
    client.close()
    if session is not None:
        from railwatch.operator.verify import verify_outside  # noqa: PLC0415 -- loads every actuator

        checks = (*checks, *verify_outside(session, SystemClock()))
    for check in checks:
        if as_json:
            print_json(asdict(check))
        else:
            mark = {True: "ok", False: "DIFFERS", None: "unknown"}[check.agrees]
            typer.echo(f"{mark:8} {check.entity_id}  {check.knob}  {check.words}")
    if not checks and not as_json:
        typer.echo("nothing is held")
    if any(check.agrees is False for check in checks):
        raise typer.Exit(1)


@app.command(name="revert-all", epilog="Example: railwatch actions revert-all --config /etc/railwatch/railwatch.yaml")
def revert_all(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Release everything that railwatch set on the GPUs, also what a run that ended left; exit status 1 for a rest.

    While railwatch runs its actuator does it, and no incident that was acted on gets a new action until it closes.
    """
    try:
        client, session = _actuator(config_file, data_dir)
    except EnvironmentLacksError:
        folder = state_dir_of(data_dir_of(config_file, data_dir))
        if configured_actuator_socket(config_file) or not left_in(folder):
            raise
        done = list(take_back(folder, reason=BY_HAND))
        _finish(done, {action.id: False for action in done}, rest=0, as_json=as_json)
        return
    done = _release(client, {action.incident_id for action in client.in_force()}, _by_hand(None, ""))
    rest = len(client.in_force())
    client.close()
    if session is not None:
        done += take_back_outside(session, None, SystemClock(), reason=_by_hand(None, ""))
    _finish(done, {action.id: _is_simulated(session) for action in done}, rest=rest, as_json=as_json)


def _finish(done: list[Action], simulated: Mapping[str, bool | None], *, rest: int, as_json: bool) -> None:
    _show(done, simulated, as_json=as_json)
    failed = [action for action in done if action.state is ActionState.FAILED]
    if rest or failed:
        typer.echo(f"{max(rest, len(failed))} not given back yet; the actuator goes on trying", err=True)
        raise typer.Exit(1)


def _release(client: ActuatorClient, incidents: Iterable[str], reason: str) -> list[Action]:
    return [action for name in sorted(incidents) for action in client.release_incident(name, reason=reason, bar=True)]


def _by_hand(who: str | None, why: str) -> str:
    """Return for the record who takes back what was done, and why where that is told."""
    name, told = " ".join((who or "").split()) or current_user(), " ".join(why.split())
    if len(name) > WHO_MAX or len(told) > _WHY_MAX:
        raise typer.BadParameter(f"at most {WHO_MAX} characters of name and {_WHY_MAX} of reason")
    return f"{BY_HAND} by {name}{f': {told}' if told else ''}"


def _actuator(config_file: Path | None, data_dir: Path | None) -> tuple[ActuatorClient, Session | None]:
    """Return the actuator to ask: that of the run on this data folder, or the privileged one that is configured."""
    return actuator_of_run(data_dir_of(config_file, data_dir), privileged=configured_actuator_socket(config_file))


def _is_simulated(session: Session | None) -> bool:
    return session is not None and session.simulated


def _show(actions: list[Action], simulated: Mapping[str, bool | None], *, as_json: bool, over: bool = False) -> None:
    if as_json:
        for action in actions:
            print_json(record_fields(action, simulated=simulated[action.id]))
        return
    console = Console(highlight=False)
    for _, same in groupby(actions, key=lambda action: (action.decision_id, action.state, describe(action))):
        alike = list(same)
        first = alike[0]
        lease = _lease(first, over=over)
        who = ", ".join(action.entity_id.removeprefix("gpu:")[:12] for action in alike)
        console.print(f"{iso_utc(first.time_ns)[:19]}Z  {describe(first)}{lease}", soft_wrap=True)
        console.print(
            f"    {first.incident_id}  {who}  by {escape(first.owner)}  [dim]{escape(first.reason)}[/]", soft_wrap=True
        )
    if not actions:
        console.print("no actions")


def _lease(action: Action, *, over: bool) -> str:
    if action.state not in IN_FORCE:
        return ""
    if over:
        return "  run ended"
    return "" if action.lease_until_ns is None else f"  lease until {iso_utc(action.lease_until_ns)[11:19]}Z"


def _tell(story: ActionStory) -> None:
    console = Console(highlight=False)
    last = story.changes[-1]
    console.print(f"[bold]{escape(last.id)}[/]  on {escape(last.entity_id)}, by {escape(last.owner)}", soft_wrap=True)
    if (policy := ahead_of(last)) is not None:
        console.print(f"a reflex: it went ahead of {escape(policy)} and of any incident", soft_wrap=True)
    elif story.incident is None:
        console.print(f"incident {escape(last.incident_id)} is not kept any more")
    else:
        console.print(f"{iso_utc(story.incident.opened_ns)[:19]}Z  {describe(story.incident)}", soft_wrap=True)
        for finding in story.incident.findings:
            numbers = ", ".join(f"{item.name} {item.value:g} {item.unit}".strip() for item in finding.evidence)
            console.print(f"    seen: {escape(finding.summary)}  [dim]{escape(numbers)}[/]", soft_wrap=True)
    told: tuple[Decision | Action | Outcome, ...] = (*story.decisions, *story.changes, *story.outcomes)
    for record in told:
        console.print(f"{iso_utc(record.time_ns)[:19]}Z  {describe(record)}", soft_wrap=True)
        if isinstance(record, Action):
            console.print(f"    [dim]{escape(record.reason)}[/]", soft_wrap=True)
