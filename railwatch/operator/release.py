"""Takes back by hand what the responder of a run holds outside the GPUs."""

from threading import Event as Flag

from agent.responding.intake import TAKE_BACK
from agent.responding.responder import PERSON
from agent.responding.work import EVERYTHING
from railwatch.session import Session, said_in
from telemetry.clock import Clock
from telemetry.errors import TransientError
from telemetry.records import Action, ActionState, Event, EventKind, Severity

# The responder looks ten times a second; a scheduler that is away answers nothing for longer. Heuristic.
ANSWER_WITHIN_S = 30.0
# Heuristic: more than the responder takes from a change to telling of it.
_LOOK_EVERY_S = 0.5
ANSWERS = frozenset({ActionState.RELEASED, ActionState.FAILED})


def held_outside(session: Session) -> tuple[str, ...]:
    """Return the incidents for which something outside the GPUs stands, as the responder last told."""
    told = said_in(session.responder_status_path).get("held", {})
    return tuple(sorted({incident for incidents in told.values() for incident in incidents}))


def take_back_outside(session: Session, incident_id: str | None, clock: Clock, *, reason: str) -> tuple[Action, ...]:
    """Have the responder give back what an incident had switched on, everything where none is named.

    `reason` says who wants it and why. Gives what it told of that: released, or failed and tried again.

    Raises
    ------
    TransientError
        It said nothing in time. It is asked all the same and does it when it can.
    """
    waited = {one for one in held_outside(session) if incident_id in (None, one)}
    if not waited:
        return ()
    heard = session.journal_reader("responder")
    heard.skip_to_end()
    _say(session, incident_id or EVERYTHING, clock, reason=reason)
    told: list[Action] = []
    gone: set[str] = set()
    until_s, wait = clock.monotonic_s() + ANSWER_WITHIN_S, Flag()
    while waited and clock.monotonic_s() < until_s:
        wait.wait(_LOOK_EVERY_S)
        # What somebody else had given back before is told of no more; what is just given back is told of a look later.
        waited -= gone
        gone = waited - set(held_outside(session))
        for record in heard.read():
            if isinstance(record, Action) and record.incident_id in waited and record.state in ANSWERS:
                told.append(record)
                waited.discard(record.incident_id)
    if waited:
        raise TransientError(f"{session.run_dir}: the responder told nothing of {', '.join(sorted(waited))} in time")
    return tuple(told)


def _say(session: Session, about: str, clock: Clock, *, reason: str) -> None:
    now_ns = clock.utc_ns()
    journal = session.journal_writer(PERSON)
    journal.append(
        Event(
            id=f"person:{TAKE_BACK}:{now_ns}",
            time_ns=now_ns,
            kind=EventKind.APPROVAL,
            entity_id=None,
            code=None,
            severity=Severity.INFO,
            message=f"{TAKE_BACK} {about}: {reason}",
            sources=("person",),
        )
    )
    journal.close()
