"""Timeline of one incident: what was seen, what it means, what was done, and what to check next."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analytics.classification.answers import FAULT_CLASS_GUIDES
from analytics.classification.reading import AFTER_NS, BEFORE_NS
from analytics.incidents.case import LOST_WORK_H, RESTART_H, at_stake_gpu_hours, urgency
from railwatch.operator.action_groups import change_text, group_actions, knob_label
from railwatch.operator.entity_names import EntityNames
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.command_events import event_of_command
from telemetry.commands import Command
from telemetry.entities import EntityKind
from telemetry.record_json import to_json
from telemetry.records import (
    Action,
    Decision,
    Event,
    FaultClass,
    Finding,
    FindingStatus,
    Hypothesis,
    Incident,
    Outcome,
    Record,
)

# heuristic: less likely causes are not worth a check.
_WORTH_A_CHECK = 0.05
_MOST_CHECKS = 3
# heuristic: as many updates of a finding, and equal lines of several entities, as one reads before they repeat.
_MOST_UPDATES, _FOLDED_FROM = 4, 3
_LEAST_AGO_S = 0.1
_NO_NAMES = EntityNames()
_PRIORITIES = {"page": "page an operator", "ticket": "open a ticket", "record": "record only, no page"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """Observation or change, and its time.

    `title` is its heading for people, `kind` that of the JSON form. Entries of equal `group` are of one kind, at one
    time, on different entities; `entity_id` is empty for entries that have no group.
    """

    time_ns: int
    kind: str
    text: str
    title: str = ""
    group: Hashable = None
    entity_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentStory:
    """Everything to report about one incident.

    `seen` and `done` are in order of time. `contradicts` is the evidence against the likeliest cause.
    """

    incident: Incident
    seen: tuple[TimelineEntry, ...]
    done: tuple[TimelineEntry, ...]
    contradicts: tuple[str, ...]
    checks: tuple[str, ...]
    stake: str


def story_of_incident(incident: Incident, records: Iterable[Record], names: EntityNames = _NO_NAMES) -> IncidentStory:
    """Build the story from the newest record of an incident and the records around it, oldest version first."""
    kept = [*records]
    seen = _folded([*_findings(incident, kept), *_events(incident, kept)], names)
    likeliest = incident.hypotheses[:1]
    return IncidentStory(
        incident=incident,
        seen=tuple(sorted(seen, key=lambda one: (one.time_ns, one.kind, one.text))),
        done=tuple(sorted(_done(incident, kept, names), key=lambda one: one.time_ns)),
        contradicts=likeliest[0].against if likeliest else (),
        checks=tuple(checks_of(incident)),
        stake=_stake(incident),
    )


def story_fields(story: IncidentStory) -> dict[str, Any]:
    """Return a story as JSON types; an entry of the timeline has the keys `time_ns`, `what` and `words`."""

    def entries(timeline: Iterable[TimelineEntry]) -> list[dict[str, Any]]:
        return [{"time_ns": one.time_ns, "what": one.kind, "words": one.text} for one in timeline]

    fields = asdict(story) | {"seen": entries(story.seen), "done": entries(story.done)}
    return {**fields, "type": "story", "incident": to_json(story.incident)}


def meaning_of(cause: FaultClass) -> str:
    """Return the meaning of a class of root cause."""
    return FAULT_CLASS_GUIDES[cause].means


def path_text(hypothesis: Hypothesis, names: EntityNames = _NO_NAMES) -> str:
    """Return the path of a hypothesis in one line, from the cause to the symptom, and whether it is grounded."""
    steps = " → ".join(
        f"{names.name(one.entity_id)} ({one.shows.replace('_', ' ')}, {iso_utc(one.since_ns)[11:19]})"
        for one in hypothesis.path
    )
    return f"{steps}; {f'not grounded: {hypothesis.ungrounded}' if hypothesis.ungrounded else 'grounded'}"


def checks_of(incident: Incident) -> list[str]:
    """Return what to check next, for the likeliest causes first."""
    worth = [
        one for one in incident.hypotheses if one.probability >= _WORTH_A_CHECK and one.cause is not FaultClass.UNKNOWN
    ]
    return [f"{FAULT_CLASS_GUIDES[one.cause].check} ({one.cause.value})" for one in worth[:_MOST_CHECKS]]


def _is_near(event: Event, incident: Incident) -> bool:
    concerned = {incident.entity_id, *incident.affected}
    # What several GPUs share may concern any of them.
    is_own = event.entity_id is not None and event.entity_id.partition(":")[0] in (EntityKind.GPU, EntityKind.LINK)
    if is_own and event.entity_id not in concerned:
        return False
    return incident.opened_ns - BEFORE_NS <= event.time_ns <= (incident.closed_ns or incident.time_ns) + AFTER_NS


def _findings(incident: Incident, records: Sequence[Record]) -> Iterator[TimelineEntry]:
    """Yield every version of the findings at its own time, from the finding records and from the incident itself."""
    versions = [one for one in records if isinstance(one, Incident) and one.id == incident.id]
    reported = {(one.id, one.time_ns): one for version in (*versions, incident) for one in version.findings}
    ids = {finding_id for finding_id, _ in reported}
    reported |= {(one.id, one.time_ns): one for one in records if isinstance(one, Finding) and one.id in ids}
    for finding_id in sorted(ids):
        own = sorted((one for one in reported.values() if one.id == finding_id), key=lambda one: one.time_ns)
        yield from _versions(own)


def _versions(own: Sequence[Finding]) -> Iterator[TimelineEntry]:
    """Yield the versions of one finding; many updates between the first and the last are one entry with a count."""
    updates = [one for one in own if one.status is FindingStatus.UPDATED]
    between = updates[1:-1] if len(updates) > _MOST_UPDATES else []
    before = ""
    for one in own:
        if one in between:
            if one is between[0]:
                text = f"{len(between)} more times, until {iso_utc(between[-1].time_ns)[11:19]}"
                yield replace(_entry(one), text=text, group=None)
            continue
        ago_s = (one.time_ns - one.since_ns) / NS_PER_S
        began = f" (began {ago_s:.1f} s before)" if one.status is FindingStatus.RAISED and ago_s >= _LEAST_AGO_S else ""
        text = "as before" if one.summary == before else one.summary
        yield replace(_entry(one), text=f"{text}{began}")
        before = one.summary


def _entry(finding: Finding) -> TimelineEntry:
    return TimelineEntry(
        time_ns=finding.time_ns,
        kind=f"{finding.cause.value} {finding.status.value}",
        text=finding.summary,
        group=(finding.time_ns, finding.detector, finding.cause, finding.status),
        entity_id=finding.entity_id,
    )


def _events(incident: Incident, records: Sequence[Record]) -> Iterator[TimelineEntry]:
    events = (event_of_command(one) if isinstance(one, Command) else one for one in records)
    newest = {one.id: one for one in events if isinstance(one, Event) and _is_near(one, incident)}
    for event in newest.values():
        yield TimelineEntry(
            time_ns=event.time_ns,
            kind=f"event {event.kind.value}",
            text=event.message,
            group=(event.time_ns, event.kind, event.code) if event.entity_id else None,
            entity_id=event.entity_id or "",
        )


def _folded(entries: Sequence[TimelineEntry], names: EntityNames) -> Iterator[TimelineEntry]:
    """Yield entries; those of one group are one entry that names the other entities."""
    alike: dict[Hashable, list[TimelineEntry]] = {}
    for one in entries:
        alike.setdefault(id(one) if one.group is None else one.group, []).append(one)
    for same in alike.values():
        if len(same) < _FOLDED_FROM:
            yield from same
            continue
        first, *others = sorted(same, key=lambda one: one.text)
        yield replace(first, text=f"{first.text} (also {names.names(one.entity_id for one in others)})")


def _done(incident: Incident, records: Sequence[Record], names: EntityNames) -> Iterator[TimelineEntry]:
    own = [one for one in records if isinstance(one, Decision | Action | Outcome) and one.incident_id == incident.id]
    summaries = {one.summary for one in (*records, *incident.findings) if isinstance(one, Finding | Incident)}
    # Of a decision and of an outcome the newest record counts, of an action every change that it made.
    newest = {one.id: one for one in own if isinstance(one, Decision | Outcome)}
    for record in newest.values():
        yield _decision(record, summaries, names) if isinstance(record, Decision) else _outcome(record)
    for group in group_actions(one for one in own if isinstance(one, Action)):
        for step in group.steps:
            first = step.first
            change = names.in_text(change_text(first, before=step is group.steps[0]))
            text = f"{knob_label(first)} on {names.names(step.entity_ids)}: {change}"
            yield TimelineEntry(time_ns=first.time_ns, kind=f"action {first.state.value}", text=text)


def _decision(record: Decision, summaries: Collection[str], names: EntityNames) -> TimelineEntry:
    # The reason of a notification is the summary of the incident, which is printed above.
    reason = "for the findings above" if record.reason in summaries else record.reason
    text = f"{record.action} on {names.names(record.targets) or 'nothing'}: {names.in_text(reason)}"
    return TimelineEntry(time_ns=record.time_ns, kind=f"decision {record.verdict.value}", text=text)


def _outcome(record: Outcome) -> TimelineEntry:
    helped = {True: "helped", False: "did not help", None: "unknown whether it helped"}[record.helped]
    return TimelineEntry(time_ns=record.time_ns, kind=f"outcome: {helped}", title="outcome", text=record.summary)


def _stake(incident: Incident) -> str:
    expected = f"{incident.impact_gpu_hours:.2g} GPU-hours expected to be lost if nothing is done"
    if not incident.loss_probability:
        return expected
    stake = incident.impact_gpu_hours / incident.loss_probability
    return (
        f"{expected}: {stake:.2g} at stake{_made_of(incident, stake)} x {incident.loss_probability:.3g} probability; "
        f"priority: {_PRIORITIES[urgency(incident.impact_gpu_hours)]}"
    )


def _made_of(incident: Incident, stake_gpu_hours: float) -> str:
    """Return the GPUs and the times that a stake consists of; empty where the record was computed otherwise."""
    age_s = incident.number("checkpoint_age_s")
    each = at_stake_gpu_hours(n_gpus=1, checkpoint_age_s=age_s)
    n_gpus = round(stake_gpu_hours / each)
    if n_gpus < 1 or abs(n_gpus * each - stake_gpu_hours) > 0.01 * stake_gpu_hours:
        return ""
    lost_min = LOST_WORK_H * 60 if age_s is None else age_s / 60
    source = "assumed" if age_s is None else "age of the checkpoint"
    gpus = "1 GPU" if n_gpus == 1 else f"{n_gpus} GPUs"
    return f" = {gpus} x ({RESTART_H * 60:.0f} min restart + {lost_min:.0f} min lost work, {source})"
