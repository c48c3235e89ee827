"""Case in the incident book: an incident, and the state needed to update it."""

from dataclasses import dataclass, replace
from hashlib import sha256

from analytics.connectivity import Kinship
from analytics.incidents.families import STANDING, STORM, explains, family_of, finding_key, rank_of
from analytics.incidents.impact import at_stake_gpu_hours, loss_probability, severity_of
from telemetry.entities import EntityKind, label_list
from telemetry.records import Cause, Finding, FindingStatus, Hypothesis, Incident, IncidentState

MAX_FINDINGS = 512
# heuristic: more names than these, or a longer list, hide the summary.
_MAX_NAMES, _NOTE_MAX = 4, 40
_JOB_ID = f"{EntityKind.JOB}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An incident that is not closed.

    `claimed` says that an action of ours is in force, `held_by` which one where that is known, `late` that the symptom
    was gone before it. `quiet_since_ns` is since when no symptom was there and no claim in force, None while one is.
    `unconfirmed` are the keys of findings that were active before a restart and have not been told since. `storm`
    counts what an alarm flood folded into it, by cause; empty where it is none.
    """

    incident: Incident
    claimed: bool = False
    held_by: str = ""
    late: bool = False
    quiet_since_ns: int | None = None
    unconfirmed: frozenset[str] = frozenset()
    storm: tuple[tuple[Cause, int], ...] = ()

    @property
    def active(self) -> tuple[Finding, ...]:
        """Return the findings whose condition holds."""
        return tuple(finding for finding in self.incident.findings if finding.status is not FindingStatus.CLEARED)

    @property
    def symptoms(self) -> bool:
        """Return whether a symptom is there, beside faults that stand."""
        return any(own.cause not in STANDING for own in self.active)

    @property
    def over(self) -> bool:
        """Return whether what was seen is gone: every symptom; where there was none, the fault that stands."""
        seen = [own for own in self.incident.findings if own.cause not in STANDING] or self.incident.findings
        return all(own.status is FindingStatus.CLEARED for own in seen)

    @property
    def lead(self) -> Finding:
        """Return the finding that speaks for the case: nearest to the root cause, active, worst, first.

        What is seen goes before the fault behind it: rules answer a rail that sags, whichever of the hypotheses holds.
        In a storm there is no common root cause: the worst speaks.
        """
        if self.storm:
            return min(
                self.incident.findings,
                key=lambda one: (one.status is FindingStatus.CLEARED, -one.severity.rank, one.since_ns, one.id),
            )
        return _nearest_to_root(self.incident.findings)

    @property
    def still_wrong(self) -> Finding:
        """Return the finding that says what is wrong now: the lead, unless it is over and another one is not."""
        lead, active = self.lead, self.active
        return _nearest_to_root(active) if active and lead.status is FindingStatus.CLEARED else lead

    @property
    def family(self) -> int:
        """Return the number of the family of its cause; storms are of a family of their own."""
        return STORM if self.storm else family_of(self.incident.cause)

    def place(self, kinship: Kinship) -> tuple[int, str]:
        """Return its family and its node: what can have to do with it stands there."""
        return self.family, kinship.top(self.incident.entity_id)

    def holds(self, finding: Finding) -> bool:
        """Return whether this finding, in an earlier record, is in the case."""
        key = finding_key(finding)
        return any(finding_key(own) == key for own in self.incident.findings)

    def takes_in(self, finding: Finding, root: str, kinship: Kinship) -> bool:
        """Return whether the case, as it stands, accounts for a finding whose siblings point to `root`.

        It does where it stands on the same entity or explains the finding from above; and where the finding's siblings
        point higher than the case stands, only if its cause lies nearer to the root than theirs.
        """
        own, cause, entity_id = self.incident.entity_id, self.incident.cause, finding.entity_id
        related = own == entity_id or (explains(cause, finding.cause) and own in kinship.ancestors(entity_id))
        nearer = rank_of(cause) < rank_of(finding.cause)
        return related and (nearer or root in (entity_id, own))


def _nearest_to_root(findings: tuple[Finding, ...]) -> Finding:
    return min(
        findings,
        key=lambda finding: (
            finding.cause in STANDING,
            rank_of(finding.cause),
            finding.status is FindingStatus.CLEARED,
            -finding.severity.rank,
            finding.since_ns,
            finding.entity_id,
        ),
    )


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
    """Replace the record of a finding by the newest. Beyond the bound the longest cleared one is removed."""
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
    """Return the survivor with the findings of both."""
    for finding in absorbed.incident.findings:
        if not survivor.holds(finding):
            survivor = with_finding(survivor, finding)
    return replace(
        survivor,
        incident=replace(survivor.incident, opened_ns=min(survivor.incident.opened_ns, absorbed.incident.opened_ns)),
        unconfirmed=survivor.unconfirmed | absorbed.unconfirmed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Annotations of a case: text before and after the summary, ranked hypotheses, silence."""

    headline: str = ""
    remark: str = ""
    hypotheses: tuple[Hypothesis, ...] = ()
    silence: str | None = None


def settled(case: Case, kinship: Kinship, *, now_ns: int, judged: Judged) -> Case:
    """Return the case with all that follows from its findings: cause, severity, state, impact and texts."""
    before, lead, active = case.incident, case.lead, bool(case.active)
    severity = max((before.severity, *(own.severity for own in before.findings)), key=lambda worst: worst.rank)
    probability = loss_probability(cause=lead.cause, severity=severity, hypotheses=judged.hypotheses)
    severity = max(severity, severity_of(probability), key=lambda worst: worst.rank)
    symptoms = case.symptoms
    late = case.late and not symptoms
    state = before.state
    if case.claimed and not symptoms:
        state = IncidentState.MITIGATED
    elif active:
        state = IncidentState.OPEN
    quiet_since_ns = case.quiet_since_ns
    if active or case.claimed:
        quiet_since_ns = None
    elif quiet_since_ns is None:
        quiet_since_ns = now_ns
    # An action holds down what was seen, which is the lead; the fault behind it remains and is in the evidence.
    reported = case.still_wrong if state is IncidentState.OPEN else lead
    affected = tuple(sorted({own.entity_id for own in before.findings}))
    stake_gpu_hours = at_stake_gpu_hours(
        n_gpus=_gpus_at_stake(before.entity_id, probability, kinship),
        checkpoint_age_s=before.number("checkpoint_age_s"),
    )
    incident = replace(
        before,
        time_ns=max(now_ns, before.time_ns),
        cause=lead.cause,
        severity=severity,
        state=state,
        affected=affected,
        impact_gpu_hours=stake_gpu_hours * probability,
        summary=f"{judged.headline}: {reported.summary}" if judged.headline else reported.summary,
        notes=_notes(reported, affected, kinship, judged, held=_held_by(case, state, late=late)),
        loss_probability=probability,
        hypotheses=judged.hypotheses,
        silence=judged.silence,
        held=state is IncidentState.MITIGATED and not late,
    )
    return replace(case, incident=incident, late=late, quiet_since_ns=quiet_since_ns)


def _gpus_at_stake(root: str, probability: float, kinship: Kinship) -> int:
    """Return how many GPUs lose their work: those at or below the root, and those of a job lost with one of them.

    Where a node runs a job, all of its GPUs are taken to work for it.
    """
    node = kinship.top(root)
    if probability >= 1.0 and any(one.startswith(_JOB_ID) for one in kinship.descendants(node)):
        return len(kinship.gpus_under(node))
    return len(kinship.gpus_under(root))


def _held_by(case: Case, state: IncidentState, *, late: bool) -> str:
    """Return which action of ours is in force, and whether it holds the symptom down; empty where none is."""
    if state is not IncidentState.MITIGATED:
        return f"{case.held_by} is in force" if case.claimed and case.held_by else ""
    return "it was over before an action came into force" if late else f"held down by {case.held_by or 'an action'}"


def _notes(
    reported: Finding, affected: tuple[str, ...], kinship: Kinship, judged: Judged, *, held: str
) -> tuple[str, ...]:
    others = [kinship.label(entity_id) for entity_id in affected if entity_id != reported.entity_id]
    also = f"also on {label_list(others)}" if others else ""
    if len(also) > _NOTE_MAX:
        also = f"also on {label_list(others[:_MAX_NAMES])} and {len(others) - _MAX_NAMES} more"
    return tuple(note for note in (also, judged.remark, held) if note)
