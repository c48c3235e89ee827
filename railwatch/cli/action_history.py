"""Everything that the records tell of one action."""

from dataclasses import dataclass

import typer

from telemetry.records import Action, Decision, Incident, Outcome, Record
from telemetry.store.records import RecordFile

# As many ids as one line holds. Heuristic.
_MOST_IDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStory:
    """Why it was, what was done, and what came of it, each in order of time; at least one change."""

    incident: Incident | None
    decisions: tuple[Decision, ...]
    changes: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """All of it."""
        incident = () if self.incident is None else (self.incident,)
        return (*incident, *self.decisions, *self.changes, *self.outcomes)


def stories_of(records: RecordFile, wanted: str) -> tuple[ActionStory, ...]:
    """Return the story of the action that a person means, or of each of the incident; ends with status 1 for none."""
    return tuple(_story(records, action) for action in _picked(records, wanted))


def _story(records: RecordFile, action: Action) -> ActionStory:
    changes = tuple(item for item in records.history(action.id) if isinstance(item, Action))
    incident = records.get(action.incident_id)
    wanted = dict.fromkeys(change.decision_id for change in changes)
    decisions = [found for name in wanted if isinstance(found := records.get(name), Decision)]
    told = records.find("outcome", limit=1000, where={"incident_id": action.incident_id})
    outcomes = [item for item in told if isinstance(item, Outcome) and item.decision_id in wanted]
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
    found = f"{len(matches)} actions begin so" if matches else "no such action"
    named = ", ".join(item.id for item in (matches or [*known.values()])[:_MOST_IDS])
    typer.echo(f"railwatch: {wanted}: {found}; {f'there is {named}' if named else 'there is none'}", err=True)
    raise typer.Exit(1)
