"""``railwatch actions pending|approve|reject|reset-breaker|judge|agreement``: a person's word on what is decided."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evaluation.agreement import agreements_of
from railwatch.cli.baselines import Who, current_user
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session, open_records
from railwatch.operator.guard_commands import tell_word
from railwatch.session import Session
from rules.engine.decisions import setting_of
from rules.engine.operator_events import WHO_MAX, WHY_MAX, Say, Word, word_of
from telemetry.clock import SystemClock, iso_utc
from telemetry.knobs import KnobKind
from telemetry.records import Decision, Event, EventKind, Verdict, to_json

app = typer.Typer()

_MOST = 1000
_ANSWERED = {Say.APPROVE: "approved", Say.REJECT: "rejected"}

Why = Annotated[str, typer.Option("--reason", "--why", help="Stands in the record.")]
DecisionId = Annotated[str, typer.Argument(metavar="ID", help="The decision's id, or its beginning.")]


@app.command(epilog="Example: railwatch actions pending --json")
def pending(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """List the decisions that wait for a person, with what they would do and until when."""
    folder = data_dir_of(config_file, data_dir)
    now_ns = SystemClock().utc_ns()  # what ran out while nothing ran is ended by the next run, and waits no more
    waiting = [one for one in waiting_of(decisions_of(folder)) if one.expires_ns is None or now_ns < one.expires_ns]
    if as_json:
        for one in waiting:
            print_json(to_json(one))
        return
    rows = [
        (
            one.id,
            one.action,
            ", ".join(_short(name) for name in one.targets),
            "" if one.expires_ns is None else iso_utc(one.expires_ns)[:19],
        )
        for one in waiting
    ]
    print_table("waiting for a person", ("decision", "action", "for", "until (UTC)"), rows)
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
    """Let a decision that waits be carried out, if it still holds by then; never a laxer setting than asked for."""
    _answer(Say.APPROVE, decision_id, why, who, _live(data_dir, config_file), as_json=as_json)


@app.command(epilog='Example: railwatch actions reject gpu-lost-drain:i-7f2a --reason "a person is at the node"')
def reject(
    decision_id: DecisionId,
    why: Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """End a decision that waits; its policy leaves the incident alone until it closes."""
    _answer(Say.REJECT, decision_id, why, who, _live(data_dir, config_file), as_json=as_json)


@app.command(name="reset-breaker", epilog='Example: railwatch actions reset-breaker --reason "loose plug reseated"')
def reset_breaker(
    why: Annotated[str, typer.Option("--reason", help="What was found and done; stands in the record.")],
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a tripped breaker and latched caps go on; only a person may."""
    if not why.strip():
        raise typer.BadParameter("say what was found and done", param_hint="--reason")
    word = _word(Say.RESET_BREAKER, "", who, why)
    told = tell_word(_live(data_dir, config_file), word)
    _show(told, as_json=as_json)


@app.command(epilog="Example: railwatch actions judge supply-sag-clock-cap:i-7f2a --right")
def judge(
    decision_id: DecisionId,
    *,
    right: Annotated[bool, typer.Option("--right/--wrong", help="Whether you would have done the same.")],
    why: Why = "",
    who: Who = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Report whether a decision that was only told would have been right; counts for `agreement`."""
    say = Say.AGREE if right else Say.DISAGREE
    _answer(say, decision_id, why, who, _live(data_dir, config_file), as_json=as_json)


@app.command(epilog="Example: railwatch actions agreement --json")
def agreement(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Show per class of action how long it has only been told, and whether people agreed: for you to promote it.

    Railwatch never promotes a class itself: that is a line in the configuration.
    """
    folder = data_dir_of(config_file, data_dir)
    rows = agreements_of(decisions_of(folder), _approvals(folder), now_ns=SystemClock().utc_ns())
    if as_json:
        for row in rows:
            print_json(asdict(row))
        return
    shown = [
        (
            row.action,
            f"{row.days:.1f}",
            str(row.told),
            f"{row.agreed} of {row.judged}",
            "yes" if row.ready else row.lacks,
        )
        for row in rows
    ]
    print_table("agreement", ("class", "days told", "decisions", "agreed", "ready to enforce"), shown)


def decisions_of(folder: Path) -> list[Decision]:
    """Return the newest record of every decision that a data folder holds, the newest first."""
    records = open_records(folder)
    try:
        return [one for one in records.find("decision", limit=_MOST) if isinstance(one, Decision)]
    finally:
        records.close()


def waiting_of(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions that wait for a person."""
    return [one for one in decisions if one.verdict is Verdict.PENDING]


def _live(data_dir: DataDir, config_file: ConfigFile) -> Session:
    return live_session(data_dir_of(config_file, data_dir))


def _answer(say: Say, wanted: str, why: str, who: str | None, session: Session, *, as_json: bool) -> None:
    folder = session.config.data_dir
    known = decisions_of(folder)
    if say in (Say.APPROVE, Say.REJECT):
        _stop_if_answered(say, wanted, known, _approvals(folder))
        known = waiting_of(known)
    found = _picked(known, wanted)
    told = tell_word(session, _word(say, found.id, who, why))
    _show(told, as_json=as_json)
    if say is Say.APPROVE and not as_json and (sets := _sets(found)):
        typer.echo(sets)


def _approvals(folder: Path) -> list[Event]:
    """Return what people said lately, the newest first."""
    records = open_records(folder)
    try:
        found = [one for one in records.find("event", limit=_MOST) if isinstance(one, Event)]
    finally:
        records.close()
    return [one for one in found if one.kind is EventKind.APPROVAL]


def _stop_if_answered(say: Say, wanted: str, known: Sequence[Decision], events: Sequence[Event]) -> None:
    """End with who answered already; a yes that is not carried out yet may still be taken back."""
    begins = [one for one in known if one.id == wanted] or [one for one in known if one.id.startswith(wanted)]
    if len(begins) != 1:
        return
    words = (word_of(event) for event in sorted(events, key=lambda one: one.time_ns, reverse=True))
    answers = (word for word in words if word is not None and word.decision_id == begins[0].id)
    last = next((word for word in answers if word.say in (Say.APPROVE, Say.REJECT)), None)
    if last is None or (begins[0].verdict is Verdict.PENDING and last.say is not say):
        return
    typer.echo(f"{begins[0].id}: already {_ANSWERED[last.say]} by {last.who}", err=True)
    raise typer.Exit(1)


def _sets(decision: Decision) -> str:
    """Return what an approval lets be set at most; nothing where the decision turns no knob."""
    asked = setting_of(decision)
    if asked is None:
        return ""
    knob, setting = asked
    bound = "least" if knob is KnobKind.FAN else "most"
    return f"sets {knob.words} of {len(decision.targets)} GPUs to {knob.text(setting)} at {bound}, if it still holds"


def _picked(known: Sequence[Decision], wanted: str) -> Decision:
    exact = [one for one in known if one.id == wanted]
    found = exact or [one for one in known if one.id.startswith(wanted)]
    if len(found) != 1:
        problem = "no decision of that id waits or is kept" if not found else f"{len(found)} decisions begin so"
        typer.echo(f"{wanted}: {problem}; railwatch actions pending lists those that wait", err=True)
        raise typer.Exit(1)
    return found[0]


def _short(entity_id: str) -> str:
    """``GPU-43aec229``, as `railwatch actions list` says it."""
    return "-".join(entity_id.partition(":")[2].split("-")[:2])


def _word(say: Say, decision_id: str, who: str | None, why: str) -> Word:
    word = Word(say=say, decision_id=decision_id, who=(who or "").strip() or current_user(), why=why.strip())
    if len(word.who) > WHO_MAX or len(word.why) > WHY_MAX:
        raise typer.BadParameter(f"at most {WHO_MAX} characters of name and {WHY_MAX} of reason")
    return word


def _show(event: Event, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(event))
    else:
        typer.echo(event.message)
