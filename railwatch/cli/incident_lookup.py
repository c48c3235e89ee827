"""The one incident that a person means by the beginning of its id."""

from collections.abc import Iterable, Sequence

import typer

from telemetry.records import Incident, Record

# As many ids as one line holds. Heuristic.
_MOST_IDS = 6


def find_incident(records: Iterable[Record], incident_id: str) -> Incident:
    """Return the newest record of the incident; says why and ends with status 1 where there is none, or several."""
    known = {one.id: one for one in records if isinstance(one, Incident)}
    matches = [one for one in known.values() if one.id.startswith(incident_id)]
    if len(matches) != 1:
        found = f"{len(matches)} incidents begin so" if matches else "no such incident"
        typer.echo(f"{incident_id}: {found}; {_there_are(matches or [*known.values()])}", err=True)
        raise typer.Exit(1)
    return matches[0]


def _there_are(incidents: Sequence[Incident]) -> str:
    if not incidents:
        return "there is none"
    named = ", ".join(f"{one.id} ({one.cause.value})" for one in incidents[:_MOST_IDS])
    more = f" and {len(incidents) - _MOST_IDS} more" if len(incidents) > _MOST_IDS else ""
    return f"there is {named}{more}" if len(incidents) == 1 else f"there are {named}{more}"
