"""Foreseen incident of a supply that might sag, for caps that are prepared in advance. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from analytics.detectors.supply_limits import RailSagLimits
from rules.caps.targets import kind_of
from telemetry.entities import EntityKind
from telemetry.records import REFLEX, Cause, Evidence, Finding, FindingStatus, Incident, IncidentState, Severity

# Half of what one sample of a real feed scatters by (see RailSagLimits): below the limit, and hardly more than that.
_BELOW_V = 0.005


def is_reflex(incident_id: str) -> bool:
    """Return True if an incident id is that of a reflex."""
    return incident_id.startswith(REFLEX)


def reflex_id(supply_id: str, now_ns: int) -> str:
    """Return the id of the cap that was prepared for a supply at `now_ns`."""
    return f"{REFLEX}{supply_id}:{now_ns}"


def sag_of(supply_id: str, live: Iterable[Incident], limits: RailSagLimits, now_ns: int) -> Incident:
    """Return the incident of a supply that has just fallen below the limit that counts at once.

    If an incident in `live` is about that supply, or else about another supply, it is continued: two that sag are one
    incident. What prevents an action on it (a release by an operator, a cap in force) prevents this one too.
    """
    finding = _finding(supply_id, limits, now_ns)
    about = [(incident, {incident.entity_id, *incident.affected}) for incident in live]
    own = (incident for incident, entities in about if supply_id in entities)
    beside = (incident for incident, entities in about if any(kind_of(one) == EntityKind.SUPPLY for one in entities))
    incident = next(own, None) or next(beside, None)
    if incident is not None:
        others = tuple(one for one in incident.findings if _key(one) != _key(finding))
        return replace(
            incident,
            time_ns=now_ns,
            cause=Cause.SUPPLY_SAG,
            affected=tuple(sorted({*incident.affected, supply_id})),
            state=IncidentState.OPEN,
            severity=finding.severity,
            findings=(*others, finding),
        )
    return Incident(
        id=reflex_id(supply_id, now_ns),
        time_ns=now_ns,
        opened_ns=now_ns,
        closed_ns=None,
        cause=Cause.SUPPLY_SAG,
        entity_id=supply_id,
        affected=(supply_id,),
        state=IncidentState.OPEN,
        severity=finding.severity,
        impact_gpu_hours=0.0,
        summary=finding.summary,
        findings=(finding,),
    )


def _finding(supply_id: str, limits: RailSagLimits, now_ns: int) -> Finding:
    minimum_v = limits.at_once_below_v - _BELOW_V
    return Finding(
        id=f"foreseen:rail_sag:{supply_id}:{now_ns}",
        time_ns=now_ns,
        since_ns=now_ns,
        detector="rail_sag",
        cause=Cause.SUPPLY_SAG,
        entity_id=supply_id,
        status=FindingStatus.RAISED,
        severity=Severity.CRITICAL,
        score=0.0,
        summary=f"foreseen: {supply_id} below {limits.at_once_below_v:.2f} V",
        evidence=(
            Evidence(name="limit_v", value=limits.minimum_v, unit="V"),
            Evidence(name="minimum_v", value=minimum_v, unit="V"),
            Evidence(name="depth_v", value=limits.minimum_v - minimum_v, unit="V"),
            Evidence(name="duration_s", value=0.0, unit="s"),
            Evidence(name="dips", value=1.0, unit=""),
        ),
    )


def _key(finding: Finding) -> tuple[str, str]:
    return finding.detector, finding.entity_id
