"""The story of one incident, in order of time: what was seen, what it means, what was done, and what to check next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analytics.classification.answers import ANSWERS
from analytics.incidents.impact import urgency
from telemetry.clock import NS_PER_S
from telemetry.records import (
    Action,
    Decision,
    Event,
    Finding,
    Hypothesis,
    Incident,
    Outcome,
    Record,
    RootCause,
)

# Events so long before an incident and after it are told with it: Meta RSC clusters, HPCA'25, arXiv 2410.21680.
BEFORE_NS = 600 * NS_PER_S
AFTER_NS = 300 * NS_PER_S
# own choice: less likely answers are not worth a check.
_WORTH_A_CHECK = 0.05
_MOST_CHECKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One thing that was seen or done, and when."""

    time_ns: int
    what: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What there is to tell of one incident.

    `seen` and `done` are in order of time. `contradicts` is what speaks against the likeliest answer.
    """

    incident: Incident
    seen: tuple[Moment, ...]
    done: tuple[Moment, ...]
    contradicts: tuple[str, ...]
    checks: tuple[str, ...]
    stake: str


def story_of(incident: Incident, records: Iterable[Record]) -> Story:
    """Tell an incident from its newest record and the records around it; later versions of a record come later."""
    newest: dict[tuple[str, str], Record] = {}
    for record in records:
        if isinstance(record, Event):
            if _is_near(record, incident):
                newest["event", record.id] = record
        elif isinstance(record, Decision | Action | Outcome) and record.incident_id == incident.id:
            # An action is told at each change of its state, its renewed leases once.
            state = record.state.value if isinstance(record, Action) else ""
            newest[f"{type(record).__name__} {state}", record.id] = record
    seen = [*(_seen(finding) for finding in incident.findings)]
    seen += [_event(record) for record in newest.values() if isinstance(record, Event)]
    done = [_done(record) for record in newest.values() if not isinstance(record, Event)]
    likeliest = incident.hypotheses[:1]
    return Story(
        incident=incident,
        seen=tuple(sorted(seen, key=lambda one: (one.time_ns, one.what, one.words))),
        done=tuple(sorted(done, key=lambda one: one.time_ns)),
        contradicts=likeliest[0].against if likeliest else (),
        checks=tuple(_checks(incident.hypotheses)),
        stake=_stake(incident),
    )


def meaning_of(cause: RootCause) -> str:
    """Say what a class of root cause means."""
    return ANSWERS[cause].means


def _is_near(event: Event, incident: Incident) -> bool:
    concerned = {incident.entity_id, *incident.affected}
    if event.entity_id is not None and event.entity_id not in concerned and not _is_of_node(event.entity_id):
        return False
    return incident.opened_ns - BEFORE_NS <= event.time_ns <= (incident.closed_ns or incident.time_ns) + AFTER_NS


def _is_of_node(entity_id: str) -> bool:
    """Say whether an entity is no GPU, so that what happens to it may concern any of them."""
    return not entity_id.startswith(("gpu:", "link:"))


def _seen(finding: Finding) -> Moment:
    return Moment(time_ns=finding.since_ns, what=f"{finding.cause.value} {finding.status.value}", words=finding.summary)


def _event(event: Event) -> Moment:
    return Moment(time_ns=event.time_ns, what=f"event {event.kind.value}", words=event.message)


def _done(record: Record) -> Moment:
    match record:
        case Decision():
            words = f"{record.action} on {', '.join(record.targets) or 'nothing'}: {record.reason}"
            return Moment(time_ns=record.time_ns, what=f"decision {record.verdict.value}", words=words)
        case Action():
            words = f"{record.knob} of {record.entity_id}: {_set(record)}"
            return Moment(time_ns=record.time_ns, what=f"action {record.state.value}", words=words)
        case Outcome():
            helped = {True: "helped", False: "did not help", None: "nobody can tell yet"}[record.helped]
            return Moment(time_ns=record.time_ns, what=f"outcome: {helped}", words=record.summary)
        case _:
            raise ValueError(f"{type(record).__name__} is nothing that was done")


def _set(action: Action) -> str:
    def said(value: float | None) -> str:
        return "unset" if value is None else f"{value:g} {action.unit}"

    return f"found {said(action.found)}, wanted {said(action.wanted)}, read back {said(action.read_back)}"


def _checks(hypotheses: Sequence[Hypothesis]) -> list[str]:
    worth = [one for one in hypotheses if one.probability >= _WORTH_A_CHECK and one.cause is not RootCause.UNKNOWN]
    return [f"{ANSWERS[one.cause].check} ({one.cause.value})" for one in worth[:_MOST_CHECKS]]


def _stake(incident: Incident) -> str:
    expected = f"{incident.impact_gpu_hours:.2g} GPU-hours expected to be lost if nothing is done"
    if not incident.loss_probability:
        return expected
    stake = incident.impact_gpu_hours / incident.loss_probability
    return (
        f"{expected}: {stake:.2g} at stake x {incident.loss_probability:.1%} probability; "
        f"priority: {urgency(incident.impact_gpu_hours)}"
    )
