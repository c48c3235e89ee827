"""Actions as text: one entry per knob and incident in lists, and one action with its reason, steps and outcome."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.markup import escape

from railwatch.cli.incident_view import evidence_lines, outcome_lines
from railwatch.cli.printing import REASON_CHARACTERS, describe
from railwatch.operator.action_groups import ActionGroup, ActionStep, change_text, group_actions, setting_text
from railwatch.operator.entity_names import EntityNames
from telemetry.clock import iso_utc
from telemetry.quantities import shortened
from telemetry.records import Action, ActionState, Decision, Incident, Outcome, Record
from telemetry.store.records import RecordFile

# heuristic: ids that fit in one line.
_MOST_IDS = 4
# heuristic: with head, evidence and outcome these fit on one screen of 25 lines.
_FIRST_STEPS, _LAST_STEPS, _MOST_EVIDENCE = 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStory:
    """Incident, decisions, changes and outcomes of one action, each in order of time; at least one change."""

    incident: Incident | None
    decisions: tuple[Decision, ...]
    changes: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """All records of the action."""
        incident = () if self.incident is None else (self.incident,)
        return (*incident, *self.decisions, *self.changes, *self.outcomes)


def stories_of(records: RecordFile, wanted: str) -> tuple[ActionStory, ...]:
    """Return the story of one action, or of each action of an incident; exit with status 1 if there is none."""
    return tuple(_story(records, action) for action in _picked(records, wanted))


def _story(records: RecordFile, action: Action) -> ActionStory:
    changes = tuple(item for item in records.history(action.id) if isinstance(item, Action))
    incident = records.get(action.incident_id)
    wanted = dict.fromkeys(change.decision_id for change in changes)
    decisions = [found for name in wanted if isinstance(found := records.get(name), Decision)]
    every = records.find("outcome", limit=1000, where={"incident_id": action.incident_id})
    outcomes = [item for item in every if isinstance(item, Outcome) and item.decision_id in wanted]
    return ActionStory(
        incident=incident if isinstance(incident, Incident) else None,
        decisions=tuple(sorted(decisions, key=lambda item: item.time_ns)),
        changes=changes or (action,),
        outcomes=tuple(sorted(outcomes, key=lambda item: item.time_ns)),
    )


def _picked(records: RecordFile, wanted: str) -> tuple[Action, ...]:
    known = {item.id: item for item in records.find("action", limit=1000) if isinstance(item, Action)}
    exact = records.get(wanted)
    if isinstance(exact, Action):
        return (exact,)
    matches = [item for item in known.values() if item.id.startswith(wanted)]
    if len(matches) == 1:
        return (matches[0],)
    of_incident = [item for item in known.values() if item.incident_id.startswith(wanted)]
    if not matches and len({item.incident_id for item in of_incident}) == 1:
        return tuple(sorted(of_incident, key=lambda item: item.time_ns))
    found = f"{len(matches)} actions match" if matches else "no action with this id or of this incident"
    ids = ", ".join(item.id for item in (matches or [*known.values()])[:_MOST_IDS])
    typer.echo(f"railwatch: {wanted}: {found}; {f'expected one of {ids}' if ids else 'there are no actions'}", err=True)
    raise typer.Exit(1)


def print_groups(console: Console, changes: Sequence[Action], names: EntityNames, *, run_ended: bool = False) -> None:
    """Print changes as two lines per knob and incident, the newest first."""
    for group in reversed(group_actions(changes)):
        first, last = group.steps[0].first, group.steps[-1].first
        policy = first.ahead_of
        reflex = "" if policy is None else f" (reflex ahead of {policy})"
        console.print(
            f"{iso_utc(first.time_ns)[:19]}Z  [bold]{group.label}[/]  {escape(names.names(group.entity_ids))}  "
            f"{escape(group.summary(run_ended=run_ended) + reflex)}",
            soft_wrap=True,
        )
        reason = f"[dim]{escape(names.in_text(shortened(_reason(group), REASON_CHARACTERS)))}[/]"
        console.print(f"    {group.incident_id}  by {escape(last.owner)}  {reason}", soft_wrap=True)


def print_stories(
    console: Console, stories: Sequence[ActionStory], names: EntityNames, *, run_ended: bool = False
) -> None:
    """Print the actions of one incident: settings, evidence, steps and outcomes."""
    changes = [change for story in stories for change in story.changes]
    groups = group_actions(changes)
    print_groups(console, changes, names, run_ended=run_ended)
    _print_cause(console, stories[0], names)
    for group in groups:
        console.print(f"[bold]steps of {group.label}[/]")
        for line in _step_lines(group, names):
            console.print(f"  {escape(line)}", soft_wrap=True)
    lines = [*outcome_lines(outcome for story in stories for outcome in story.outcomes)]
    console.print("[bold]did it help[/]")
    for line in lines or ["no outcome recorded"]:
        console.print(f"  {escape(line)}", soft_wrap=True)
    console.print(f"[dim]every change and its reason: railwatch actions show {groups[0].incident_id} --verbose[/]")


def records_of(stories: Sequence[ActionStory]) -> list[Record]:
    """Return every record once: actions of one incident share decisions and outcomes."""
    return [*dict.fromkeys(record for story in stories for record in story.records)]


def print_records(console: Console, records: Iterable[Record]) -> None:
    """Print decisions, changes with their reasons, and outcomes, with the full ids of entities."""
    for record in records:
        entity = f"  [dim]{escape(record.entity_id)}[/]" if isinstance(record, Action) else ""
        console.print(f"{iso_utc(record.time_ns)[:19]}Z  {describe(record)}{entity}", soft_wrap=True)
        if isinstance(record, Action):
            console.print(f"    [dim]{escape(record.reason)}[/]", soft_wrap=True)


def _print_cause(console: Console, story: ActionStory, names: EntityNames) -> None:
    last = story.changes[-1]
    policy = last.ahead_of
    if policy is not None:
        console.print(f"reflex: set ahead of the policy {escape(policy)} and of any incident", soft_wrap=True)
        return
    if story.incident is None:
        console.print(f"incident {escape(last.incident_id)} is no longer stored", soft_wrap=True)
        return
    console.print(names.in_text(describe(story.incident)), soft_wrap=True)
    newest = {finding.id: finding for finding in story.incident.findings}
    for line in [*evidence_lines(newest.values(), names)][:_MOST_EVIDENCE]:
        console.print(f"  {escape(line)}", soft_wrap=True)


def _reason(group: ActionGroup) -> str:
    """Return the reason of the last cap, else of the last change."""
    caps = [step.first for step in group.steps if step.first.state is ActionState.APPLIED]
    return (caps or [group.steps[-1].first])[-1].reason


def _step_lines(group: ActionGroup, names: EntityNames) -> list[str]:
    steps = [step for step in group.steps if step.first.state is not ActionState.RENEWED]
    hidden = len(steps) - _FIRST_STEPS - _LAST_STEPS
    if hidden <= 1:
        return [_step_line(step, group, names) for step in steps]
    first = [_step_line(step, group, names) for step in steps[:_FIRST_STEPS]]
    last = [_step_line(step, group, names) for step in steps[-_LAST_STEPS:]]
    return [*first, f"... {hidden} more steps", *last]


def _step_line(step: ActionStep, group: ActionGroup, names: EntityNames) -> str:
    some = step.entity_ids != group.entity_ids and set(step.entity_ids) != set(group.entity_ids)
    where = f"{names.names(step.entity_ids)}: " if some else ""
    text = change_text(step.first, before=step is group.steps[0])
    why = step.first.reason.removeprefix(f"{setting_text(step.first.wanted, step.first.unit)}: ")
    reason = "" if why in text else f": {names.in_text(shortened(why, REASON_CHARACTERS))}"
    return f"{iso_utc(step.first.time_ns)[11:19]}  {where}{text}{reason}"
