"""Case in the incident book: an incident, the state needed to update it, and its expected cost.

The cost is an estimate, for ranking and not for accounting:
impact = GPUs that lose their work x (restart + lost work) x probability that they lose it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from analytics.connectivity import Kinship
from analytics.incidents.families import STANDING, STORM, explains, family_of, finding_key, rank_of
from analytics.judged import JudgedPair
from telemetry.entities import EntityKind, label_list
from telemetry.records import Cause, FaultClass, Finding, FindingStatus, Hypothesis, Incident, IncidentState, Severity

MAX_FINDINGS = 512
# heuristic: more names than these, or a longer list, hide the summary.
_MAX_NAMES, _NOTE_MAX = 4, 40
_JOB_ID = f"{EntityKind.JOB}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCase:
    """An incident that is not closed.

    `claimed` is True while an action of railwatch is in force, `held_by` which one where that is known, `late` that the
    symptom was gone before it. `quiet_since_ns` is since when no symptom was there and no claim in force, None while
    one is. `unconfirmed` are the keys of findings that were active before a restart and have not been reported since.
    `judged` is what detectors judged about the time of its findings, whether they found anything or not.
    `storm` counts what an alarm flood folded into it, by cause; empty where it is none.
    """

    incident: Incident
    claimed: bool = False
    held_by: str = ""
    late: bool = False
    quiet_since_ns: int | None = None
    unconfirmed: frozenset[str] = frozenset()
    storm: tuple[tuple[Cause, int], ...] = ()
    judged: frozenset[JudgedPair] = frozenset()

    @property
    def active(self) -> tuple[Finding, ...]:
        """Return the findings whose condition holds."""
        return tuple(finding for finding in self.incident.findings if finding.status is not FindingStatus.CLEARED)

    @property
    def symptoms(self) -> bool:
        """True if there is a symptom, persistent faults aside."""
        return any(own.cause not in STANDING for own in self.active)

    @property
    def over(self) -> bool:
        """True if every symptom is gone; where there was none, the persistent fault."""
        seen = [own for own in self.incident.findings if own.cause not in STANDING] or self.incident.findings
        return all(own.status is FindingStatus.CLEARED for own in seen)

    @property
    def lead(self) -> Finding:
        """Return the finding that represents the case: nearest to the root cause, active, worst, first.

        What is seen goes before the fault behind it: rules answer a rail that sags, whichever of the hypotheses holds.
        In a storm there is no common root cause: the worst represents it.
        """
        if self.storm:
            return min(
                self.incident.findings,
                key=lambda one: (one.status is FindingStatus.CLEARED, -one.severity.rank, one.since_ns, one.id),
            )
        return _nearest_to_root(self.incident.findings)

    @property
    def still_wrong(self) -> Finding:
        """Return the finding that is wrong now: the lead, unless it is over and another one is not."""
        lead, active = self.lead, self.active
        return _nearest_to_root(active) if active and lead.status is FindingStatus.CLEARED else lead

    @property
    def family(self) -> int:
        """Return the number of the family of its cause; storms are of a family of their own."""
        return STORM if self.storm else family_of(self.incident.cause)

    def place(self, kinship: Kinship) -> tuple[int, str]:
        """Return its family and its node, where related cases are."""
        return self.family, kinship.top(self.incident.entity_id)

    def holds(self, finding: Finding) -> bool:
        """Return True if the case holds an earlier record of this finding."""
        key = finding_key(finding)
        return any(finding_key(own) == key for own in self.incident.findings)

    def takes_in(self, finding: Finding, root: str, kinship: Kinship) -> bool:
        """Return True if the case explains a finding whose siblings point to `root`.

        It does if it is on the same entity or explains the finding from above; and where the finding's siblings
        point higher than the case, only if its cause is nearer to the root than theirs.
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


def open_case(finding: Finding, root: str, now_ns: int) -> IncidentCase:
    """Open a case with its first finding; its id follows from that finding alone."""
    return IncidentCase(
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


def with_finding(case: IncidentCase, finding: Finding) -> IncidentCase:
    """Replace the record of a finding by the newest. Beyond the bound the longest cleared one is removed.

    One that is over keeps the evidence of what was wrong: what was measured as it ended is no sign of a cause.
    """
    key = finding_key(finding)
    if finding.status is FindingStatus.CLEARED:
        before = [own for own in case.incident.findings if finding_key(own) == key]
        finding = replace(finding, evidence=before[0].evidence) if before else finding
    others = [own for own in case.incident.findings if finding_key(own) != key]
    if len(others) >= MAX_FINDINGS:
        cleared = [own for own in others if own.status is FindingStatus.CLEARED] or others
        others.remove(min(cleared, key=lambda own: own.time_ns))
    return replace(
        case,
        incident=replace(case.incident, findings=(*others, finding)),
        unconfirmed=case.unconfirmed - {key},
    )


def merged(survivor: IncidentCase, absorbed: IncidentCase) -> IncidentCase:
    """Return the survivor with the findings of both."""
    for finding in absorbed.incident.findings:
        if not survivor.holds(finding):
            survivor = with_finding(survivor, finding)
    return replace(
        survivor,
        incident=replace(survivor.incident, opened_ns=min(survivor.incident.opened_ns, absorbed.incident.opened_ns)),
        unconfirmed=survivor.unconfirmed | absorbed.unconfirmed,
        judged=survivor.judged | absorbed.judged,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnnotations:
    """Annotations of a case: text before and after the summary, ranked hypotheses, silence."""

    headline: str = ""
    remark: str = ""
    hypotheses: tuple[Hypothesis, ...] = ()
    silence: str | None = None


def settled(case: IncidentCase, kinship: Kinship, *, now_ns: int, judged: CaseAnnotations) -> IncidentCase:
    """Return the case with all that follows from its findings: cause, severity, state, impact and texts."""
    before, lead, active = case.incident, case.lead, bool(case.active)
    severity = max((before.severity, *(own.severity for own in before.findings)), key=lambda worst: worst.rank)
    probability = loss_probability(cause=lead.cause, severity=severity, hypotheses=judged.hypotheses)
    severity = max(severity, severity_of_loss(probability), key=lambda worst: worst.rank)
    late, state = case.late and not case.symptoms, IncidentState.OPEN if active else before.state
    if case.claimed and not case.symptoms:
        state = IncidentState.MITIGATED
    quiet_since_ns = now_ns if case.quiet_since_ns is None else case.quiet_since_ns
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
        summary=_summary(before, reported, judged.headline),
        notes=(
            *_how_it_ended(before, reported),
            *_notes(reported, affected, kinship, judged, _held_by(case, state, late=late)),
        ),
        loss_probability=probability,
        hypotheses=judged.hypotheses,
        silence=judged.silence,
        held=state is IncidentState.MITIGATED and not late,
    )
    return replace(
        case, incident=incident, late=late, quiet_since_ns=None if active or case.claimed else quiet_since_ns
    )


def _summary(before: Incident, reported: Finding, headline: str) -> str:
    """Return what is wrong; once it is over, what was: how it ended is a note."""
    if reported.status is FindingStatus.CLEARED:
        return before.summary
    return f"{headline}: {reported.summary}" if headline else reported.summary


def _how_it_ended(before: Incident, reported: Finding) -> tuple[str, ...]:
    over = reported.status is FindingStatus.CLEARED and reported.summary != before.summary
    return (reported.summary.removeprefix(f"{before.summary}; "),) if over else ()


def _gpus_at_stake(root: str, probability: float, kinship: Kinship) -> int:
    """Return how many GPUs lose their work: those at or below the root, and those of a job lost with one of them.

    Where a node runs a job, all of its GPUs are taken to work for it.
    """
    node = kinship.top(root)
    if probability >= 1.0 and any(one.startswith(_JOB_ID) for one in kinship.descendants(node)):
        return len(kinship.gpus_under(node))
    return len(kinship.gpus_under(root))


def _held_by(case: IncidentCase, state: IncidentState, *, late: bool) -> str:
    """Return which action of ours is in force, and whether it holds the symptom down; empty where none is."""
    if state is not IncidentState.MITIGATED:
        return f"{case.held_by} is in force" if case.claimed and case.held_by else ""
    return "it was over before an action came into force" if late else f"held down by {case.held_by or 'an action'}"


def _notes(
    reported: Finding, affected: tuple[str, ...], kinship: Kinship, judged: CaseAnnotations, held: str
) -> tuple[str, ...]:
    others = [kinship.label(entity_id) for entity_id in affected if entity_id != reported.entity_id]
    also = f"also on {label_list(others)}" if others else ""
    if len(also) > _NOTE_MAX:
        also = f"also on {label_list(others[:_MAX_NAMES])} and {len(others) - _MAX_NAMES} more"
    return tuple(note for note in (also, judged.remark, held) if note)


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
    """Return a finding as cleared, since no detector reported it again after a restart."""
    return replace(
        finding,
        time_ns=max(now_ns, finding.time_ns),
        status=FindingStatus.CLEARED,
        summary=f"{finding.summary}; not seen again since the restart",
    )


def absent(finding: Finding, now_ns: int) -> Finding:
    """Return a finding, updated, whose GPU is absent after a restart."""
    text = "; not seen since the restart: GPU not found"
    summary = finding.summary if finding.summary.endswith(text) else f"{finding.summary}{text}"
    return replace(finding, time_ns=max(now_ns, finding.time_ns), status=FindingStatus.UPDATED, summary=summary)


# Restart of a large training job: 5 to 20 min, upper end (Meta RSC clusters, HPCA'25, arXiv 2410.21680).
RESTART_H = 20 / 60
# Assumption: a checkpoint every 30 min, so 15 min of work are lost on average, where its age is unknown.
LOST_WORK_H = 15 / 60
# Assumption, one figure per severity until outcomes are there to fit it. A lost GPU has cost its job already, and so
# has one that hangs.
LOSS_PROBABILITY = {Severity.INFO: 0.001, Severity.WARNING: 0.1, Severity.CRITICAL: 0.5}
_LOST_ALREADY = frozenset({Cause.GPU_LOST, Cause.HANG})
# These take nothing from a job: what is wrong is what measures it.
_HARMLESS = frozenset({FaultClass.SENSOR_FAULT, FaultClass.EXPORTER_FAULT})
# From these probabilities of a loss on, an incident is at least a warning, and critical. Heuristic: bands of a tenth
# of a per cent, and of more than ten per cent.
_WARNING_ABOVE, _CRITICAL_ABOVE = 0.001, 0.1
# From so many expected GPU-hours on a person is worth waking, and worth a ticket. Heuristic: a node of eight GPUs for
# an hour, one GPU for half an hour.
_PAGE_GPU_HOURS, _TICKET_GPU_HOURS = 8.0, 0.5


def loss_probability(*, cause: Cause, severity: Severity, hypotheses: Sequence[Hypothesis] = ()) -> float:
    """Return the probability that a job loses its work for it within a day.

    What is likelier a fault of sensors than of what they measure threatens no job by that share.
    """
    if cause in _LOST_ALREADY:
        return 1.0
    harmless = sum(one.probability for one in hypotheses if one.cause in _HARMLESS)
    return LOSS_PROBABILITY[severity] * (1.0 - harmless if harmless > 0.5 else 1.0)


def severity_of_loss(probability: float) -> Severity:
    """Return the least severity that goes with a probability of loss."""
    if probability > _CRITICAL_ABOVE:
        return Severity.CRITICAL
    return Severity.WARNING if probability > _WARNING_ABOVE else Severity.INFO


def at_stake_gpu_hours(*, n_gpus: int, checkpoint_age_s: float | None = None) -> float:
    """Return what is lost if it comes to it: the restart, and the work since the last checkpoint."""
    lost_h = LOST_WORK_H if checkpoint_age_s is None else checkpoint_age_s / 3600
    return n_gpus * (RESTART_H + lost_h)


def urgency(impact_gpu_hours: float) -> str:
    """Return what an expected loss is worth: a page, a ticket, or a place in the record."""
    if impact_gpu_hours > _PAGE_GPU_HOURS:
        return "page"
    return "ticket" if impact_gpu_hours > _TICKET_GPU_HOURS else "record"
