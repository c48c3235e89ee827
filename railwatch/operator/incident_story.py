"""The story of one incident, in order of time: what was seen, what it means, what was done, and what to check next."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analytics.classification.answers import ANSWERS
from analytics.incidents.impact import LOST_WORK_H, RESTART_H, at_stake_gpu_hours, urgency
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.records import (
    Action,
    ActionState,
    Decision,
    Event,
    Finding,
    FindingStatus,
    Hypothesis,
    Incident,
    Outcome,
    Record,
    RootCause,
)

# Events so long before an incident and after it are told with it: Meta RSC clusters, HPCA'25, arXiv 2410.21680.
BEFORE_NS = 600 * NS_PER_S
AFTER_NS = 300 * NS_PER_S
# heuristic: less likely answers are not worth a check.
_WORTH_A_CHECK = 0.05
_MOST_CHECKS = 3
# own choices: so many updates of a finding are read, so many sentences that differ in figures alone, so many names.
_MOST_UPDATES, _FOLDED_FROM, _MOST_NAMED = 4, 3, 2
_LEAST_AGO_S = 0.1
# A change over several GPUs is carried out within this time.
_TOGETHER_NS = NS_PER_S // 2
_FIGURES = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One thing that was seen or done, and when."""

    time_ns: int
    what: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentStory:
    """What there is to tell of one incident.

    `seen` and `done` are in order of time. `contradicts` is what speaks against the likeliest answer.
    """

    incident: Incident
    seen: tuple[TimelineEntry, ...]
    done: tuple[TimelineEntry, ...]
    contradicts: tuple[str, ...]
    checks: tuple[str, ...]
    stake: str


def story_of_incident(incident: Incident, records: Iterable[Record]) -> IncidentStory:
    """Return an incident from its newest record and the records around it; later versions of a record come later."""
    kept = [*records]
    seen = _folded([*_findings(incident, kept), *_events(incident, kept)])
    likeliest = incident.hypotheses[:1]
    return IncidentStory(
        incident=incident,
        seen=tuple(sorted(seen, key=lambda one: (one.time_ns, one.what, one.words))),
        done=tuple(sorted(_done(incident, kept), key=lambda one: one.time_ns)),
        contradicts=likeliest[0].against if likeliest else (),
        checks=tuple(_checks(incident.hypotheses)),
        stake=_stake(incident),
    )


def meaning_of(cause: RootCause) -> str:
    """Return what a class of root cause means."""
    return ANSWERS[cause].means


def _is_near(event: Event, incident: Incident) -> bool:
    concerned = {incident.entity_id, *incident.affected}
    if event.entity_id is not None and event.entity_id not in concerned and not _is_of_node(event.entity_id):
        return False
    return incident.opened_ns - BEFORE_NS <= event.time_ns <= (incident.closed_ns or incident.time_ns) + AFTER_NS


def _is_of_node(entity_id: str) -> bool:
    """Return whether an entity is no GPU, so that what happens to it may concern any of them."""
    return not entity_id.startswith(("gpu:", "link:"))


def _findings(incident: Incident, records: Sequence[Record]) -> Iterator[TimelineEntry]:
    """Yield every telling of the findings at its own time; what only the incident's newest record holds, once."""
    versions = [one for one in records if isinstance(one, Incident) and one.id == incident.id]
    told = {(one.id, one.time_ns): one for version in (*versions, incident) for one in version.findings}
    ids = {finding_id for finding_id, _ in told}
    told |= {(one.id, one.time_ns): one for one in records if isinstance(one, Finding) and one.id in ids}
    for finding_id in sorted(ids):
        own = sorted((one for one in told.values() if one.id == finding_id), key=lambda one: one.time_ns)
        yield from _tellings(own)


def _tellings(own: Sequence[Finding]) -> Iterator[TimelineEntry]:
    """Yield the tellings of one finding; of many updates those between the first and the last are counted."""
    updates = [one for one in own if one.status is FindingStatus.UPDATED]
    between = updates[1:-1] if len(updates) > _MOST_UPDATES else []
    before = ""
    for one in own:
        if one in between:
            if one is between[0]:
                words = f"{len(between)} more times, until {iso_utc(between[-1].time_ns)[11:19]}"
                yield TimelineEntry(time_ns=one.time_ns, what=f"{one.cause.value} updated", words=words)
            continue
        ago_s = (one.time_ns - one.since_ns) / NS_PER_S
        began = f" (began {ago_s:.1f} s before)" if one.status is FindingStatus.RAISED and ago_s >= _LEAST_AGO_S else ""
        words = "as before" if one.summary == before else one.summary
        yield TimelineEntry(time_ns=one.time_ns, what=f"{one.cause.value} {one.status.value}", words=f"{words}{began}")
        before = one.summary


def _events(incident: Incident, records: Sequence[Record]) -> Iterator[TimelineEntry]:
    newest = {one.id: one for one in records if isinstance(one, Event) and _is_near(one, incident)}
    for event in newest.values():
        yield TimelineEntry(time_ns=event.time_ns, what=f"event {event.kind.value}", words=event.message)


def _folded(moments: Sequence[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Yield what was said of many parts at the same time in the same words, figures aside, once."""
    alike: dict[tuple[int, str, str], list[TimelineEntry]] = {}
    for one in moments:
        alike.setdefault((one.time_ns, one.what, _FIGURES.sub("", one.words)), []).append(one)
    for same in alike.values():
        if len(same) < _FOLDED_FROM:
            yield from same
            continue
        first = min(same, key=lambda one: one.words)
        yield replace(first, words=f"{first.words} (and {len(same) - 1} more the same, figures aside)")


def _done(incident: Incident, records: Sequence[Record]) -> Iterator[TimelineEntry]:
    own = [one for one in records if isinstance(one, Decision | Action | Outcome) and one.incident_id == incident.id]
    told = sorted({one.summary for one in records if isinstance(one, Finding | Incident)}, key=len, reverse=True)
    told += [one.summary for one in incident.findings]
    # Of a decision and of an outcome the newest record counts, of an action every change that it made.
    newest = {one.id: one for one in own if isinstance(one, Decision | Outcome)}
    for record in newest.values():
        yield _decided(record, told) if isinstance(record, Decision) else _came_of_it(record)
    for group in _actions([one for one in own if isinstance(one, Action)]):
        where = _on([one.entity_id for one in group])
        words = f"{group[0].knob} of {where}: {_set(group[0])}"
        yield TimelineEntry(time_ns=group[0].time_ns, what=f"action {group[0].state.value}", words=words)


def _actions(actions: Sequence[Action]) -> list[list[Action]]:
    """Return the changes that were one over several GPUs together; renewed leases of one setting count once."""
    groups: dict[tuple[object, ...], list[list[Action]]] = {}
    for one in actions:
        key = (one.knob, one.state, one.found, one.wanted, one.read_back, one.reason)
        held = groups.setdefault(key, [])
        renewed = one.state is ActionState.RENEWED
        if held and (renewed or one.time_ns - held[-1][0].time_ns < _TOGETHER_NS):
            held[-1].append(one)
        else:
            held.append([one])
    return [group for held in groups.values() for group in held]


def _decided(record: Decision, told: Sequence[str]) -> TimelineEntry:
    # A notice repeats what was found, which stands above.
    same = next((words for words in told if words and record.reason.startswith(words)), None)
    reason = record.reason if same is None else f"for what was seen{record.reason.removeprefix(same)}"
    words = f"{record.action} on {_on(record.targets)}: {reason}"
    return TimelineEntry(time_ns=record.time_ns, what=f"decision {record.verdict.value}", words=words)


def _came_of_it(record: Outcome) -> TimelineEntry:
    helped = {True: "helped", False: "did not help", None: "nobody can tell yet"}[record.helped]
    return TimelineEntry(time_ns=record.time_ns, what=f"outcome: {helped}", words=record.summary)


def _on(targets: Sequence[str]) -> str:
    """Name the first of many; all of them stand in the records."""
    names = list(dict.fromkeys(targets))
    if len(names) <= _MOST_NAMED:
        return ", ".join(names) or "nothing"
    return f"{names[0]} and {len(names) - 1} more"


def _set(action: Action) -> str:
    def said(value: float | None) -> str:
        return "unset" if value is None else f"{value:g} {action.unit}"

    if not action.unit:  # outside the GPUs: there are words for it and no numbers
        return action.reason
    words = f"found {said(action.found)}, wanted {said(action.wanted)}, read back {said(action.read_back)}"
    went_wrong = action.state in (ActionState.FAILED, ActionState.REFUSED) and action.reason
    return f"{words}; {action.reason}" if went_wrong else words


def _checks(hypotheses: Sequence[Hypothesis]) -> list[str]:
    worth = [one for one in hypotheses if one.probability >= _WORTH_A_CHECK and one.cause is not RootCause.UNKNOWN]
    return [f"{ANSWERS[one.cause].check} ({one.cause.value})" for one in worth[:_MOST_CHECKS]]


def _stake(incident: Incident) -> str:
    expected = f"{incident.impact_gpu_hours:.2g} GPU-hours expected to be lost if nothing is done"
    if not incident.loss_probability:
        return expected
    stake = incident.impact_gpu_hours / incident.loss_probability
    return (
        f"{expected}: {stake:.2g} at stake{_made_of(incident, stake)} x {incident.loss_probability:.3g} probability; "
        f"priority: {urgency(incident.impact_gpu_hours)}"
    )


def _made_of(incident: Incident, stake_gpu_hours: float) -> str:
    """Return which GPUs and which times a stake is made of; nothing where the record was reckoned otherwise."""
    age_s = incident.number("checkpoint_age_s")
    each = at_stake_gpu_hours(n_gpus=1, checkpoint_age_s=age_s)
    n_gpus = round(stake_gpu_hours / each)
    if n_gpus < 1 or abs(n_gpus * each - stake_gpu_hours) > 0.01 * stake_gpu_hours:
        return ""
    lost_min = LOST_WORK_H * 60 if age_s is None else age_s / 60
    whence = "assumed" if age_s is None else "the checkpoint's age"
    gpus = "1 GPU" if n_gpus == 1 else f"{n_gpus} GPUs"
    return f" = {gpus} x ({RESTART_H * 60:.0f} min restart + {lost_min:.0f} min lost work, {whence})"
