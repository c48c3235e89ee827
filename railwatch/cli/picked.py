"""The one incident that a person means by the beginning of its id."""

from collections.abc import Iterable

import typer

from telemetry.records import Incident, Record


def picked(records: Iterable[Record], incident_id: str) -> Incident:
    """Give the newest record of the incident; says why and ends with status 1 where there is none, or several."""
    matches = {one.id: one for one in records if isinstance(one, Incident) and one.id.startswith(incident_id)}
    if len(matches) != 1:
        found = "no such incident" if not matches else f"{len(matches)} incidents begin so"
        typer.echo(f"{incident_id}: {found}; see railwatch incidents list", err=True)
        raise typer.Exit(1)
    return next(iter(matches.values()))
