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
from railwatch.run_context import RunContext, responder_folder
from railwatch.wiring.responder import Outside, Setup, build_outside
from telemetry.atomic_files import replace_file
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


def main(context: RunContext, stop: Event, ready: Ready) -> None:
    """Respond until told to stop. What a real node holds then stays; what a simulated one holds ends with it."""
    clock = SystemClock()
    folder = responder_folder(context.config, simulated=context.simulated)
    with contextlib.ExitStack() as kept:
        journal = WorkQueue(folder)
        kept.callback(journal.close)
        sink = context.journal_writer("responder")
        kept.callback(sink.close)
        setup = Setup(context=context, clock=clock, wait=stop.wait, kept=kept, folder=folder)
        outside = build_outside(setup, journal, guard_age_s=GuardAge(context.baselines_path, clock))
        _tell_orphans(journal, outside)
        reader = _guard_reader(context, journal, outside, clock)
        responder = Responder(
            outside.lanes,
            journal,
            reader,
            sink,
            clock,
            routes=outside.routes,
            followers=setup.followers,
            person=_person_reader(context, journal),
        )
        responder.start()
        ready({})
        _respond(context, responder, outside, stop, clock)
        busy = responder.stop(timeout_s=END_S)
        if busy:
            logger.warning("still busy at the end: %s; what was begun is told as unknown or done again", busy)
        if context.simulated:
            _let_go(outside, NODE_ENDED, but=busy)
        with contextlib.suppress(TransientError):  # told by the next run
            responder.tell()


def _tell_orphans(journal: WorkQueue, outside: Outside) -> None:
    """Report of what an earlier configuration had switched on that nobody looks after it now."""
    looked_after = {(lane.hold.actuator, lane.hold.target) for lane in outside.switches()}
    for actuator, target in journal.held():
        if (actuator, target) not in looked_after:
            logger.error("%s of %s stands and is configured no more; give it back by hand", actuator, target)


def _guard_reader(context: RunContext, journal: WorkQueue, outside: Outside, clock: Clock) -> RecordJournalReader:
    """Follow the guard from where it was left; from the beginning of this run where that belongs to another node.

    A simulated node ends with its run: what one that was killed still holds is given back first.
    """
    run = (context.started_ns,)
    same = journal.position(RUN) == run
    position = journal.position(GUARD) if same or not context.simulated else None
    if not same:
        if context.simulated:
            journal.drop_waiting(now_ns=clock.utc_ns())
            _let_go(outside, LEFT_BEHIND)
        journal.take_in((), (), journal=RUN, position=run, now_ns=clock.utc_ns())
    # Where nothing of it was taken in yet, what was decided before this run is over.
    return context.journal_reader(GUARD, position or context.journal_starts().get(GUARD))


def _person_reader(context: RunContext, journal: WorkQueue) -> RecordJournalReader:
    """Follow what people say from where it was left, from now on where nothing of it was taken in."""
    position = journal.position(PERSON)
    reader = context.journal_reader(PERSON, position)
    if position is None:
        reader.skip_to_end()
    return reader


def _respond(context: RunContext, responder: Responder, outside: Outside, stop: Event, clock: Clock) -> None:
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
                logger.error("decisions wait: %s", err)  # noqa: TRY400 -- the message is complete without a traceback
            in_trouble = True
        if clock.monotonic_s() >= say_at_s or ending or outside.held() != said.get("held"):
            say_at_s = clock.monotonic_s() + STATUS_EVERY_S
            said = _say(context, responder, outside, said)
        if ending:
            return


def _say(context: RunContext, responder: Responder, outside: Outside, said: dict[str, Any]) -> dict[str, Any]:
    """Write down how it goes, where that has changed or is not there; gives what stands there."""
    now = {
        "waiting": responder.waiting(),
        "silent": list(responder.silent),
        "actuators": outside.status(),
        "held": outside.held(),
    }
    if now != said or not context.responder_status_path.exists():
        try:
            replace_file(context.responder_status_path, json.dumps(now).encode(), synced=False)
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
            logger.error("%s cannot be given back: %s", lane.name, err)  # noqa: TRY400 -- the message is complete without a traceback


if __name__ == "__main__":
    run_child(main)
