"""``railwatch actions pending|approve|reject|reset-breaker|judge|agreement``: commands of operators on decisions."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evaluation.agreement import agreements_of
from railwatch.cli.baselines import current_user
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import (
    ConfigFile,
    DataDir,
    JsonFlag,
    Who,
    data_dir_of,
    live_session,
    names_of_run,
    open_records,
)
from railwatch.operator.commands import send_to_guard
from railwatch.run_context import RunContext
from rules.engine.policy_incident import setting_of
from telemetry.clock import SystemClock, iso_utc
from telemetry.commands import Command, CommandVerb, new_command
from telemetry.gpu import KnobKind
from telemetry.record_json import to_json
from telemetry.records import Decision, EventKind, Verdict

app = typer.Typer()

_MOST = 1000
_ANSWERED = {CommandVerb.APPROVE: "approved", CommandVerb.REJECT: "rejected"}

Why = Annotated[str, typer.Option("--reason", "--why", help="Reason, kept in the record.")]
DecisionId = Annotated[str, typer.Argument(metavar="ID", help="The decision's id, or its beginning.")]


@app.command(epilog="Example: railwatch actions pending --json")
def pending(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """List pending decisions: what they would do and when they expire."""
    folder = data_dir_of(config_file, data_dir)
    now_ns = SystemClock().utc_ns()  # the next run ends what expired while nothing ran
    waiting = [one for one in waiting_of(decisions_of(folder)) if one.expires_ns is None or now_ns < one.expires_ns]
    if as_json:
        for one in waiting:
            print_json(to_json(one))
        return
    names = names_of_run(folder)
    rows = [
        (
            one.id,
            one.action,
            names.names(one.targets),
            "" if one.expires_ns is None else iso_utc(one.expires_ns)[:19],
        )
        for one in waiting
    ]
    print_table("pending decisions", ("decision", "action", "for", "until (UTC)"), rows)
    for one in waiting:
        typer.echo(f"{one.id}: {one.reason}")


@app.command(epilog='Example: railwatch actions approve gpu-lost-drain:i-7f2a --reason "spare node is up"')
def approve(
    decision_id: DecisionId,
    why: Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Approve a pending decision: it is carried out if it still holds, at most at the setting requested."""
    _answer(CommandVerb.APPROVE, decision_id, why, who, _live(data_dir, config_file), as_json=as_json)


@app.command(epilog='Example: railwatch actions reject gpu-lost-drain:i-7f2a --reason "a person is at the node"')
def reject(
    decision_id: DecisionId,
    why: Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Reject a pending decision: its policy does not act on the incident again until it closes."""
    _answer(CommandVerb.REJECT, decision_id, why, who, _live(data_dir, config_file), as_json=as_json)


@app.command(name="reset-breaker", epilog='Example: railwatch actions reset-breaker --reason "loose plug reseated"')
def reset_breaker(
    why: Annotated[str, typer.Option("--reason", help="What was found and done, kept in the record.")],
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Reset a tripped breaker and relax latched caps again; only an operator can."""
    if not why.strip():
        raise typer.BadParameter("got no text; expected what was found and done", param_hint="--reason")
    _send(_command(CommandVerb.RESET_BREAKER, "", who, why), _live(data_dir, config_file), as_json=as_json)


@app.command(epilog="Example: railwatch actions judge supply-sag-clock-cap:i-7f2a --right")
def judge(
    decision_id: DecisionId,
    *,
    right: Annotated[
        bool, typer.Option("--right/--wrong", help="Your judgement: right if you would have done the same.")
    ],
    why: Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge a decision that was not executed as right or wrong; counts for `agreement`."""
    verb = CommandVerb.AGREE if right else CommandVerb.DISAGREE
    _answer(verb, decision_id, why, who, _live(data_dir, config_file), as_json=as_json)


@app.command(epilog="Example: railwatch actions agreement --json")
def agreement(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Show per action class how long it ran without being enforced, and the share of its decisions judged right.

    Railwatch never enforces a class by itself: set its mode in the configuration.
    """
    folder = data_dir_of(config_file, data_dir)
    rows = agreements_of(decisions_of(folder), commands_of(folder), now_ns=SystemClock().utc_ns())
    if as_json:
        for row in rows:
            print_json(asdict(row))
        return
    shown = [
        (
            row.action,
            f"{row.days:.1f}",
            str(row.reported),
            f"{row.agreed} of {row.judged}",
            "yes" if row.ready else row.lacks,
        )
        for row in rows
    ]
    print_table("agreement", ("class", "days", "decisions", "agreed", "ready to enforce"), shown)


def decisions_of(folder: Path) -> list[Decision]:
    """Return the newest version of every decision in a data folder, newest first."""
    with closing(open_records(folder)) as records:
        return [one for one in records.find("decision", limit=_MOST) if isinstance(one, Decision)]


def waiting_of(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions that are pending."""
    return [one for one in decisions if one.verdict is Verdict.PENDING]


def _live(data_dir: DataDir, config_file: ConfigFile) -> RunContext:
    return live_session(data_dir_of(config_file, data_dir))


def _answer(verb: CommandVerb, wanted: str, why: str, who: str | None, context: RunContext, *, as_json: bool) -> None:
    folder = context.config.data_dir
    known = decisions_of(folder)
    if verb in _ANSWERED:
        _stop_if_answered(verb, wanted, known, commands_of(folder))
        known = waiting_of(known)
    found = _picked(known, wanted)
    _send(_command(verb, found.id, who, why), context, as_json=as_json)
    if verb is CommandVerb.APPROVE and not as_json and (sets := _sets(found)):
        typer.echo(sets)


def commands_of(folder: Path) -> list[Command]:
    """Return the latest commands in a data folder, also those that an earlier version kept as events."""
    with closing(open_records(folder)) as records:
        kept = records.find("command", limit=_MOST)
        earlier = records.find("event", limit=_MOST, where={"kind": EventKind.APPROVAL.value})
    return [one for one in (*kept, *earlier) if isinstance(one, Command)]


def _stop_if_answered(verb: CommandVerb, wanted: str, known: Sequence[Decision], commands: Sequence[Command]) -> None:
    """Exit naming who answered already; an approval that is not carried out yet may still be rejected."""
    matches = [one for one in known if one.id == wanted] or [one for one in known if one.id.startswith(wanted)]
    if len(matches) != 1:
        return
    answers = [one for one in commands if one.subject == matches[0].id and one.verb in _ANSWERED]
    last = max(answers, key=lambda one: one.time_ns, default=None)
    if last is None or (matches[0].verdict is Verdict.PENDING and last.verb is not verb):
        return
    typer.echo(f"railwatch: {matches[0].id}: already {_ANSWERED[last.verb]} by {last.who}", err=True)
    raise typer.Exit(1)


def _sets(decision: Decision) -> str:
    """Return the setting that an approval permits at most; empty for a decision without a knob."""
    asked = setting_of(decision)
    if asked is None:
        return ""
    knob, setting = asked
    bound = "least" if knob is KnobKind.FAN else "most"
    return f"sets {knob.label} of {len(decision.targets)} GPUs to {knob.text(setting)} at {bound}, if it still holds"


def _picked(known: Sequence[Decision], wanted: str) -> Decision:
    exact = [one for one in known if one.id == wanted]
    found = exact or [one for one in known if one.id.startswith(wanted)]
    if len(found) != 1:
        problem = "no such decision" if not found else f"{len(found)} decisions match"
        typer.echo(f"railwatch: {wanted}: {problem}; expected an id from railwatch actions pending", err=True)
        raise typer.Exit(1)
    return found[0]


def _command(verb: CommandVerb, decision_id: str, who: str | None, why: str) -> Command:
    who, now_ns = (who or "").strip() or current_user(), SystemClock().utc_ns()
    try:
        return new_command(verb, decision_id, who=who, why=why.strip(), now_ns=now_ns)
    except ValueError as err:
        raise typer.BadParameter(str(err)) from err


def _send(command: Command, context: RunContext, *, as_json: bool) -> None:
    send_to_guard(context, [command])
    if as_json:
        print_json(to_json(command))
    else:
        typer.echo(command.message)
