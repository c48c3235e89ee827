"""Commands in the form of events: what detectors read, and stores and the page's list of events have always had."""

from telemetry.commands import Command, CommandVerb
from telemetry.records import Event, EventKind, Severity


def event_of_command(command: Command, *, name: str | None = None) -> Event:
    """Return a command as an event with the same id and time; `name` is how people call its entity."""
    accepts = command.verb is CommandVerb.ACCEPT_BASELINE
    message = command.message
    if accepts:
        message = f"{name or command.subject} accepted as it is by {command.who}: {command.why}"
    return Event(
        id=command.id,
        time_ns=command.time_ns,
        kind=EventKind.BASELINE if accepts else EventKind.APPROVAL,
        entity_id=command.subject if accepts else None,
        code=None,
        severity=Severity.INFO,
        message=message,
        sources=("person", command.who) if command.who else ("person",),
    )
