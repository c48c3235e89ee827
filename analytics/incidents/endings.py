"""Endings of incidents and findings whose end was not reported."""

from dataclasses import replace

from telemetry.records import Finding, FindingStatus, Incident, IncidentState


def closed_as(incident: Incident, now_ns: int, why: str) -> Incident:
    """Return an incident as closed, and why."""
    return replace(
        incident,
        time_ns=max(now_ns, incident.time_ns),
        closed_ns=now_ns,
        state=IncidentState.CLOSED,
        summary=f"{incident.summary}; {why}",
    )


def unseen(finding: Finding, now_ns: int) -> Finding:
    """Return a finding as cleared, since nobody told it again after a restart."""
    return replace(
        finding,
        time_ns=max(now_ns, finding.time_ns),
        status=FindingStatus.CLEARED,
        summary=f"{finding.summary}; not seen again since the restart",
    )


def absent(finding: Finding, now_ns: int) -> Finding:
    """Return a finding as it stands where its GPU is not there after a restart."""
    text = "; not seen since the restart: GPU not found"
    summary = finding.summary if finding.summary.endswith(text) else f"{finding.summary}{text}"
    return replace(finding, time_ns=max(now_ns, finding.time_ns), status=FindingStatus.UPDATED, summary=summary)
