"""History of one action: incident, decisions, changes and outcomes."""

from dataclasses import dataclass

import typer

from telemetry.records import Action, Decision, Incident, Outcome, Record
from telemetry.store.records import RecordFile

# heuristic: ids that fit in one line.
_MOST_IDS = 4


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
    found = f"{len(matches)} actions match" if matches else "no such action"
    ids = ", ".join(item.id for item in (matches or [*known.values()])[:_MOST_IDS])
    typer.echo(f"railwatch: {wanted}: {found}; {f'expected one of {ids}' if ids else 'there are no actions'}", err=True)
    raise typer.Exit(1)
