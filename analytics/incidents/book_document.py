"""The incident book as JSON types, to survive a restart."""

from collections.abc import Iterable
from dataclasses import asdict, astuple
from typing import Any

from pydantic import BaseModel, ConfigDict

from analytics.incidents.case import IncidentCase
from analytics.incidents.storm import Opening
from analytics.judged import JudgedPair
from telemetry.records import Cause, Event, Finding, Incident

_VERSION = 1


class IncidentCaseDocument(BaseModel):
    """Case of the incident book, as stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    incident: Incident
    claimed: bool
    quiet_since_ns: int | None
    storm: tuple[tuple[Cause, int], ...] = ()
    late: bool = False
    judged: tuple[tuple[str, str, str], ...] = ()

    def case(self) -> IncidentCase:
        """Return the case; nothing of it is confirmed yet."""
        return IncidentCase(
            incident=self.incident,
            claimed=self.claimed,
            late=self.late,
            quiet_since_ns=self.quiet_since_ns,
            storm=self.storm,
            judged=frozenset(JudgedPair(*one) for one in self.judged),
        )


class BookDocument(BaseModel):
    """The book. What came later has a default, so that an older snapshot still loads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    cases: tuple[IncidentCaseDocument, ...]
    events: tuple[Event, ...] = ()
    closed_findings: tuple[Finding, ...] = ()
    openings: tuple[Opening, ...] = ()


def as_document(
    cases: Iterable[IncidentCase],
    *,
    events: Iterable[Event],
    closed_findings: Iterable[Finding],
    openings: Iterable[Opening],
) -> dict[str, Any]:
    """Return the book as JSON types."""
    return {
        "version": _VERSION,
        "cases": [
            {
                "incident": asdict(case.incident),
                "claimed": case.claimed,
                "late": case.late,
                "quiet_since_ns": case.quiet_since_ns,
                "storm": case.storm,
                "judged": [astuple(one) for one in sorted(case.judged)],
            }
            for case in cases
        ],
        "events": [asdict(event) for event in events],
        "closed_findings": [asdict(finding) for finding in closed_findings],
        "openings": tuple(openings),
    }


def read_document(snapshot: Any) -> BookDocument:
    """Read what `as_document` gave; ValueError where it does not fit or is of another version."""
    document = BookDocument.model_validate(snapshot)
    if document.version != _VERSION:
        raise ValueError(f"incident book version {document.version}, expected {_VERSION}")
    return document
