"""What a decision of the guard means for the actuators outside the GPU; pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.responding.work import Task, Work, work_of
from rules.policy.model import ActionClass, Verb
from telemetry.commands import Command, CommandVerb, release_reason
from telemetry.records import Decision, Incident, IncidentState, Mode, Record, Verdict

# A recommended one is carried through too, all but the write.
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
    """Return the class of a decision about something outside the GPU; None where it is about a knob of a GPU."""
    if decision.action == Verb.DRAIN_RELEASE:
        return ActionClass.DRAIN
    return next((one for one in OUTSIDE if one.value == decision.action), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What came of some records: work, incidents as they now are, and decisions that nobody here can carry out."""

    works: tuple[Work, ...]
    incidents: tuple[Incident, ...]
    homeless: tuple[Decision, ...]


def take(
    records: Sequence[Record],
    routes: Mapping[ActionClass, Sequence[str]],
    *,
    incident_of: Callable[[str], Incident | None],
    sent_for: Callable[[str, str], Sequence[Work]],
) -> Taken:
    """Turn records into work.

    Parameters
    ----------
    routes
        The actuators of each class; none where nothing is set up for it.
    incident_of
        Gives an incident that was told earlier.
    sent_for
        Gives what one actuator was told for an incident earlier.
    """
    works: list[Work] = []
    incidents: dict[str, Incident] = {}
    homeless: list[Decision] = []
    for record in records:
        if isinstance(record, Incident):
            incidents[record.id] = record
            if record.state is IncidentState.CLOSED:
                works += _recoveries(record, routes, works, sent_for)
        elif isinstance(record, Decision) and record.verdict in FOLLOWED:
            incident = incidents.get(record.incident_id) or incident_of(record.incident_id)
            fresh = _works(record, incident, routes)
            if fresh is None:
                homeless.append(record)
            else:
                works += fresh
    return Taken(works=tuple(works), incidents=tuple(incidents.values()), homeless=tuple(homeless))


def _works(
    decision: Decision, incident: Incident | None, routes: Mapping[ActionClass, Sequence[str]]
) -> list[Work] | None:
    """Return the work of one decision; None where its class has no actuator here."""
    of_class = class_of(decision)
    if of_class is None:
        return []
    names = routes.get(of_class, ())
    if not names:
        # A notice is on the page and in the store, whoever else is told.
        told_here = of_class is ActionClass.NOTIFY or decision.verdict is not Verdict.EXECUTE
        return [] if told_here else None
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
    """Return what tells people that the trouble they were told of is over: once for each who was."""
    found: list[Work] = []
    for name in routes.get(ActionClass.NOTIFY, ()):
        told = [work for work in fresh if work.actuator == name and work.decision.incident_id == incident.id]
        earlier = [*sent_for(incident.id, name), *told]
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
