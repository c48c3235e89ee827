"""The responder process: carries out what the guard decides outside the GPUs."""

import contextlib
import json
import logging
from pathlib import Path
from threading import Event
from typing import Any

from agent.responding.responder import GUARD, PERSON, Responder
from agent.responding.work_queue import WorkQueue
from railwatch.processes.child import Ready, run_child
from railwatch.session import Session, responder_folder
from railwatch.wiring.responder import Outside, Setup, build_outside
from telemetry.clock import NS_PER_S, Clock, SystemClock
from telemetry.errors import TransientError
from telemetry.record_journal import RecordJournalReader

logger = logging.getLogger(__name__)

# What is decided here takes seconds to minutes to have an effect. Heuristic.
LOOK_S = 0.1
STATUS_EVERY_S = 1.0
# An actuator that is busy at the end gets this long; the supervisor kills at 10 s.
END_S = 7.0
# The place in the journal where it stands which run has it.
RUN = "run"
LEFT_BEHIND = "left behind by a run that ended"
NODE_ENDED = "the simulated node ended"


class GuardAge:
    """How long the guard has shown no sign of life: it writes down what it learns twice a minute."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._begun_ns = clock.utc_ns()

    def __call__(self) -> float:
        """Return seconds since its last sign, since this process began where it gave none."""
        try:
            seen_ns = self._path.stat().st_mtime_ns
        except OSError:
            seen_ns = 0
        return max(0.0, (self._clock.utc_ns() - max(seen_ns, self._begun_ns)) / NS_PER_S)


def main(session: Session, stop: Event, ready: Ready) -> None:
    """Respond until told to stop. What a real node holds then stays; what a simulated one holds ends with it."""
    clock = SystemClock()
    folder = responder_folder(session.config, simulated=session.simulated)
    with contextlib.ExitStack() as kept:
        journal = WorkQueue(folder)
        kept.callback(journal.close)
        sink = session.journal_writer("responder")
        kept.callback(sink.close)
        setup = Setup(session=session, clock=clock, wait=stop.wait, kept=kept, folder=folder)
        outside = build_outside(setup, journal, guard_age_s=GuardAge(session.baselines_path, clock))
        _tell_orphans(journal, outside)
        reader = _guard_reader(session, journal, outside, clock)
        responder = Responder(
            outside.lanes,
            journal,
            reader,
            sink,
            clock,
            routes=outside.routes,
            followers=setup.followers,
            person=_person_reader(session, journal),
        )
        responder.start()
        ready({})
        _respond(session, responder, outside, stop, clock)
        busy = responder.stop(timeout_s=END_S)
        if busy:
            logger.warning("still busy at the end: %s; what was begun is told as unknown or done again", busy)
        if session.simulated:
            _let_go(outside, NODE_ENDED, but=busy)
        with contextlib.suppress(TransientError):  # told by the next run
            responder.tell()


def _tell_orphans(journal: WorkQueue, outside: Outside) -> None:
    """Report of what an earlier configuration had switched on that nobody looks after it now."""
    looked_after = {(lane.hold.actuator, lane.hold.target) for lane in outside.switches()}
    for actuator, target in journal.held():
        if (actuator, target) not in looked_after:
            logger.error("%s of %s stands and is configured no more; give it back by hand", actuator, target)


def _guard_reader(session: Session, journal: WorkQueue, outside: Outside, clock: Clock) -> RecordJournalReader:
    """Follow the guard from where it was left; from the beginning of this run where that belongs to another node.

    A simulated node ends with its run: what one that was killed still holds is given back first.
    """
    run = (session.started_ns,)
    same = journal.position(RUN) == run
    position = journal.position(GUARD) if same or not session.simulated else None
    if not same:
        if session.simulated:
            journal.drop_waiting(now_ns=clock.utc_ns())
            _let_go(outside, LEFT_BEHIND)
        journal.take_in((), (), journal=RUN, position=run, now_ns=clock.utc_ns())
    # Where nothing of it was taken in yet, what was decided before this run is over.
    return session.journal_reader(GUARD, position or session.journal_starts().get(GUARD))


def _person_reader(session: Session, journal: WorkQueue) -> RecordJournalReader:
    """Follow what people say from where it was left, from now on where nothing of it was taken in."""
    position = journal.position(PERSON)
    reader = session.journal_reader(PERSON, position)
    if position is None:
        reader.skip_to_end()
    return reader


def _respond(session: Session, responder: Responder, outside: Outside, stop: Event, clock: Clock) -> None:
    said: dict[str, Any] = {}
    say_at_s = clock.monotonic_s()
    in_trouble = False
    while True:
        ending = stop.wait(LOOK_S)
        try:
            responder.step()
            in_trouble = False
        except (TransientError, OSError) as err:
            if not in_trouble:
                logger.error("decisions wait: %s", err)  # noqa: TRY400 -- the reason says it all
            in_trouble = True
        if clock.monotonic_s() >= say_at_s or ending or outside.held() != said.get("held"):
            say_at_s = clock.monotonic_s() + STATUS_EVERY_S
            said = _say(session, responder, outside, said)
        if ending:
            return


def _say(session: Session, responder: Responder, outside: Outside, said: dict[str, Any]) -> dict[str, Any]:
    """Write down how it goes, where that has changed or is not there; gives what stands there."""
    now = {
        "waiting": responder.waiting(),
        "silent": list(responder.silent),
        "actuators": outside.status(),
        "held": outside.held(),
    }
    if now != said or not session.responder_status_path.exists():
        fresh = session.responder_status_path.with_suffix(".new")
        try:
            fresh.write_text(json.dumps(now), encoding="utf-8")
            fresh.replace(session.responder_status_path)
        except OSError:
            return said
    return now


def _let_go(outside: Outside, reason: str, *, but: tuple[str, ...] = ()) -> None:
    for lane in outside.lanes:
        if lane.name in but:
            continue
        try:
            lane.let_go(reason)
        except TransientError as err:
            logger.error("%s cannot be given back: %s", lane.name, err)  # noqa: TRY400 -- the reason says it all


if __name__ == "__main__":
    run_child(main)
