"""Lookup of one incident by the first characters of its id."""

from collections.abc import Iterable, Sequence

import typer

from telemetry.records import Incident, Record

# heuristic: ids that fit in one line.
_MOST_IDS = 6


def find_incident(records: Iterable[Record], incident_id: str) -> Incident:
    """Return the newest record of an incident; report and exit with status 1 if none or several match."""
    known = {one.id: one for one in records if isinstance(one, Incident)}
    matches = [one for one in known.values() if one.id.startswith(incident_id)]
    if len(matches) != 1:
        found = f"{len(matches)} incidents match" if matches else "no such incident"
        typer.echo(f"railwatch: {incident_id}: {found}; {_known(matches or [*known.values()])}", err=True)
        raise typer.Exit(1)
    return matches[0]


def _known(incidents: Sequence[Incident]) -> str:
    if not incidents:
        return "there are no incidents"
    named = ", ".join(f"{one.id} ({one.cause.value})" for one in incidents[:_MOST_IDS])
    more = f" and {len(incidents) - _MOST_IDS} more" if len(incidents) > _MOST_IDS else ""
    return f"expected {'' if len(incidents) == 1 else 'one of '}{named}{more}"
