"""One case in the book: an incident, and what must be known beside it to move it on."""

from dataclasses import dataclass, replace
from hashlib import sha256

from analytics.connectivity import Kinship
from analytics.incidents.families import explains, family_of, finding_key, rank_of
from analytics.incidents.impact import impact_gpu_hours
from telemetry.records import Finding, FindingStatus, Incident, IncidentState

MAX_FINDINGS = 512
_MAX_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An incident that is not closed.

    `claimed` says that an action of ours holds it down. `quiet_since_ns` is since when no symptom was there and no
    claim in force, None while one is. `unconfirmed` are the keys of findings that were active before a restart and
    have not been told since.
    """

    incident: Incident
    claimed: bool = False
    quiet_since_ns: int | None = None
    unconfirmed: frozenset[str] = frozenset()

    @property
    def active(self) -> tuple[Finding, ...]:
        """Give the findings whose condition holds."""
        return tuple(finding for finding in self.incident.findings if finding.status is not FindingStatus.CLEARED)

    @property
    def lead(self) -> Finding:
        """Give the finding that speaks for the case: nearest to the root cause, active, worst, first."""
        return min(
            self.incident.findings,
            key=lambda finding: (
                rank_of(finding.cause),
                finding.status is FindingStatus.CLEARED,
                -finding.severity.rank,
                finding.since_ns,
                finding.entity_id,
            ),
        )

    @property
    def family(self) -> int:
        """Give the number of the family of its cause."""
        return family_of(self.incident.cause)

    def holds(self, finding: Finding) -> bool:
        """Say whether this finding, in an earlier record, is in the case."""
        key = finding_key(finding)
        return any(finding_key(own) == key for own in self.incident.findings)

    def takes_in(self, finding: Finding, root: str, kinship: Kinship) -> bool:
        """Say whether the case, as it stands, accounts for a finding whose siblings point to `root`.

        It does where it stands on the same entity or explains the finding from above; and where the finding's siblings
        point higher than the case stands, only if its cause lies nearer to the root than theirs.
        """
        own, cause, entity_id = self.incident.entity_id, self.incident.cause, finding.entity_id
        related = own == entity_id or (explains(cause, finding.cause) and own in kinship.ancestors(entity_id))
        nearer = rank_of(cause) < rank_of(finding.cause)
        return related and (nearer or root in (entity_id, own))


def open_case(finding: Finding, root: str, now_ns: int) -> Case:
    """Open a case with its first finding; its id follows from that finding alone."""
    return Case(
        incident=Incident(
            id=f"i-{sha256(finding.id.encode()).hexdigest()[:10]}",
            time_ns=now_ns,
            opened_ns=finding.time_ns,
            closed_ns=None,
            cause=finding.cause,
            entity_id=root,
            affected=(finding.entity_id,),
            state=IncidentState.OPEN,
            severity=finding.severity,
            impact_gpu_hours=0.0,
            summary=finding.summary,
            findings=(finding,),
        )
    )


def with_finding(case: Case, finding: Finding) -> Case:
    """Put the newest record of a finding in place of the one before. Beyond the bound the longest cleared goes."""
    key = finding_key(finding)
    others = [own for own in case.incident.findings if finding_key(own) != key]
    if len(others) >= MAX_FINDINGS:
        cleared = [own for own in others if own.status is FindingStatus.CLEARED] or others
        others.remove(min(cleared, key=lambda own: own.time_ns))
    return replace(
        case,
        incident=replace(case.incident, findings=(*others, finding)),
        unconfirmed=case.unconfirmed - {key},
    )


def merged(survivor: Case, absorbed: Case) -> Case:
    """Give the survivor with the findings of both."""
    for finding in absorbed.incident.findings:
        if not survivor.holds(finding):
            survivor = with_finding(survivor, finding)
    return replace(
        survivor,
        incident=replace(survivor.incident, opened_ns=min(survivor.incident.opened_ns, absorbed.incident.opened_ns)),
        unconfirmed=survivor.unconfirmed | absorbed.unconfirmed,
    )


def settled(case: Case, kinship: Kinship, *, now_ns: int, remark: str = "") -> Case:
    """Give the case with all that follows from its findings: cause, severity, state, impact and words."""
    before, lead, active = case.incident, case.lead, bool(case.active)
    severity = max((before.severity, *(own.severity for own in before.findings)), key=lambda worst: worst.rank)
    state = before.state
    if active:
        state = IncidentState.OPEN
    elif case.claimed:
        state = IncidentState.MITIGATED
    quiet_since_ns = case.quiet_since_ns
    if active or case.claimed:
        quiet_since_ns = None
    elif quiet_since_ns is None:
        quiet_since_ns = now_ns
    affected = tuple(sorted({own.entity_id for own in before.findings}))
    incident = replace(
        before,
        time_ns=max(now_ns, before.time_ns),
        cause=lead.cause,
        severity=severity,
        state=state,
        affected=affected,
        impact_gpu_hours=impact_gpu_hours(
            n_gpus=len(kinship.gpus_under(before.entity_id)), cause=lead.cause, severity=severity
        ),
        summary=_summary(lead, affected, state, kinship, remark),
    )
    return replace(case, incident=incident, quiet_since_ns=quiet_since_ns)


def _summary(lead: Finding, affected: tuple[str, ...], state: IncidentState, kinship: Kinship, remark: str) -> str:
    others = [kinship.name(entity_id) for entity_id in affected if entity_id != lead.entity_id]
    parts = [lead.summary]
    if others:
        more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
        parts.append(f"also on {', '.join(others[:_MAX_NAMES])}{more}")
    if remark:
        parts.append(remark)
    if state is IncidentState.MITIGATED:
        parts.append("held down by an action")
    return "; ".join(parts)
