"""Work of the actuators outside the GPU from records of the guard; pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.responding.work import Task, Work, work_of
from rules.policy.model import ActionClass, Verb
from telemetry.commands import Command, CommandVerb, release_reason
from telemetry.records import Decision, Incident, IncidentState, Mode, Record, Verdict

# A recommended decision is carried out as well, except the write.
FOLLOWED = frozenset({Verdict.EXECUTE, Verdict.RECOMMEND})
OUTSIDE = frozenset(
    {
        ActionClass.NOTIFY,
        ActionClass.CHECKPOINT,
        ActionClass.DRAIN,
        ActionClass.REQUEUE,
        ActionClass.HOOK,
        ActionClass.POWER_CYCLE,
    }
)


def class_of(decision: Decision) -> ActionClass | None:
    """Return the class of a decision outside the GPU; None for a setting of a GPU."""
    if decision.action == Verb.DRAIN_RELEASE:
        return ActionClass.DRAIN
    return next((one for one in OUTSIDE if one.value == decision.action), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeResult:
    """Result of some records: work, the newest incidents, and decisions without an actuator here."""

    works: tuple[Work, ...]
    incidents: tuple[Incident, ...]
    unroutable: tuple[Decision, ...]


def take(
    records: Sequence[Record],
    routes: Mapping[ActionClass, Sequence[str]],
    *,
    incident_of: Callable[[str], Incident | None],
    sent_for: Callable[[str, str], Sequence[Work]],
) -> IntakeResult:
    """Return the work of some records.

    `routes` has the actuators of each class, `incident_of` returns an incident that was reported earlier, `sent_for`
    the earlier messages of one actuator for an incident.
    """
    works: list[Work] = []
    incidents: dict[str, Incident] = {}
    unroutable: list[Decision] = []
    for record in records:
        if isinstance(record, Incident):
            incidents[record.id] = record
            if record.state is IncidentState.CLOSED:
                works += _recoveries(record, routes, works, sent_for)
        elif isinstance(record, Decision) and record.verdict in FOLLOWED:
            incident = incidents.get(record.incident_id) or incident_of(record.incident_id)
            fresh = _works(record, incident, routes)
            if fresh is None:
                unroutable.append(record)
            else:
                works += fresh
    return IntakeResult(works=tuple(works), incidents=tuple(incidents.values()), unroutable=tuple(unroutable))


def _works(
    decision: Decision, incident: Incident | None, routes: Mapping[ActionClass, Sequence[str]]
) -> list[Work] | None:
    """Return the work of one decision; None if its class has no actuator here."""
    of_class = class_of(decision)
    if of_class is None:
        return []
    names = routes.get(of_class, ())
    if not names:
        # A notification is on the page and in the store in any case.
        is_shown = of_class is ActionClass.NOTIFY or decision.verdict is not Verdict.EXECUTE
        return [] if is_shown else None
    task = Task.SEND
    if of_class is ActionClass.DRAIN:
        task = Task.RELEASE if decision.action == Verb.DRAIN_RELEASE else Task.ENGAGE
    return [work_of(name, task, decision, incident) for name in names]


def _recoveries(
    incident: Incident,
    routes: Mapping[ActionClass, Sequence[str]],
    fresh: Sequence[Work],
    sent_for: Callable[[str, str], Sequence[Work]],
) -> list[Work]:
    """Return the recovery messages of a closed incident: one for each route that had a message about it."""
    found: list[Work] = []
    for name in routes.get(ActionClass.NOTIFY, ()):
        new = [work for work in fresh if work.actuator == name and work.decision.incident_id == incident.id]
        earlier = [*sent_for(incident.id, name), *new]
        if earlier:
            found.append(work_of(name, Task.RECOVER, earlier[-1].decision, incident))
    return found


def work_of_command(command: Command, names: Sequence[str]) -> tuple[Work, ...]:
    """Return the work of a command that releases what an incident switched on; other commands make none."""
    if command.verb is not CommandVerb.RELEASE:
        return ()
    decision = Decision(
        id=command.id,
        time_ns=command.time_ns,
        rule="person",
        incident_id=command.subject,
        action=Verb.DRAIN_RELEASE.value,
        targets=(),
        lease_s=None,
        mode=Mode.ENFORCE,
        verdict=Verdict.EXECUTE,
        reason=release_reason(command.who, command.why),
    )
    return tuple(work_of(name, Task.TAKE_BACK, decision, None) for name in names)
