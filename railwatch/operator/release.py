"""Releasing by hand what the responder of a run holds outside the GPUs."""

from agent.responding.responder import PERSON
from railwatch.operator.commands import send_and_wait
from railwatch.run_context import RunContext, read_status
from telemetry.clock import Clock
from telemetry.commands import EVERYTHING, CommandVerb, new_command
from telemetry.errors import TransientError
from telemetry.records import Action, ActionState

# heuristic: the responder reads commands ten times a second; a scheduler that is down answers only after a timeout.
ANSWER_WITHIN_S = 30.0
# heuristic: longer than the responder takes from a change to its status file.
_LOOK_EVERY_S = 0.5
_RESULTS = frozenset({ActionState.RELEASED, ActionState.FAILED})


def held_outside(context: RunContext) -> tuple[str, ...]:
    """Return the incidents for which something outside the GPUs is held, by the responder's last status."""
    held = read_status(context.responder_status_path).get("held", {})
    return tuple(sorted({incident for incidents in held.values() for incident in incidents}))


def release_outside(
    context: RunContext, incident_id: str | None, clock: Clock, *, who: str, why: str
) -> tuple[Action, ...]:
    """Release what the responder holds for an incident, everything where none is named, and return what it reports.

    An action is released, or failed and will be retried.

    Raises
    ------
    TransientError
        The responder did not report in time; it carries the command out when it can.
    """
    waiting = {one for one in held_outside(context) if incident_id in (None, one)}
    if not waiting:
        return ()
    reader = context.journal_reader("responder")
    reader.skip_to_end()
    actions: list[Action] = []
    gone: set[str] = set()

    def is_taken() -> bool:
        # An incident that another command released leaves the status and is never reported here; a release of this
        # command is reported one look after it has left the status.
        nonlocal gone
        waiting.difference_update(gone)
        gone = waiting - set(held_outside(context))
        for record in reader.read():
            if isinstance(record, Action) and record.incident_id in waiting and record.state in _RESULTS:
                actions.append(record)
                waiting.discard(record.incident_id)
        return not waiting

    command = new_command(CommandVerb.RELEASE, incident_id or EVERYTHING, who=who, why=why, now_ns=clock.utc_ns())
    journal = context.journal_writer(PERSON)
    if not send_and_wait(journal, [command], is_taken, within_s=ANSWER_WITHIN_S, every_s=_LOOK_EVERY_S, clock=clock):
        names = ", ".join(sorted(waiting))
        raise TransientError(f"{context.run_dir}: the responder did not report a release of {names} in time")
    return tuple(actions)
