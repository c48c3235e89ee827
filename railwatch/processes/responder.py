"""The responder process: carries out the guard's decisions outside the GPUs."""

import contextlib
import logging
from pathlib import Path
from threading import Event
from typing import Any

from agent.responding.responder import GUARD, PERSON, Responder
from agent.responding.work_queue import WorkQueue
from railwatch.processes.child import Ready, run_child
from railwatch.run_context import RunContext, responder_folder
from railwatch.wiring.responder import ResponderLanes, ResponderSetup, build_outside
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock, SystemClock
from telemetry.errors import TransientError
from telemetry.json_text import json_bytes
from telemetry.record_journal import RecordJournalReader

logger = logging.getLogger(__name__)

# heuristic: these actions take seconds to minutes to have an effect.
LOOK_S = 0.1
STATUS_EVERY_S = 1.0
# Time for an actuator that is busy at the end; the supervisor kills after 10 s.
END_S = 7.0
# Key of the journal position that holds the run.
RUN = "run"
LEFT_BEHIND = "left behind by a run that ended"
NODE_ENDED = "the simulated node ended"


class GuardAge:
    """Age of the guard's last sign of life: it writes its baselines twice a minute."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._begun_ns = clock.utc_ns()

    def __call__(self) -> float:
        """Return seconds since its last sign of life, or since this process started."""
        try:
            seen_ns = self._path.stat().st_mtime_ns
        except OSError:
            seen_ns = 0
        return max(0.0, (self._clock.utc_ns() - max(seen_ns, self._begun_ns)) / NS_PER_S)


def main(context: RunContext, stop: Event, ready: Ready) -> None:
    """Respond until the request to stop; then a real node keeps its holds, a simulated one releases them."""
    clock = SystemClock()
    folder = responder_folder(context.config, simulated=context.simulated)
    with contextlib.ExitStack() as kept:
        journal = WorkQueue(folder)
        kept.callback(journal.close)
        sink = context.journal_writer("responder")
        kept.callback(sink.close)
        setup = ResponderSetup(context=context, clock=clock, wait=stop.wait, kept=kept, folder=folder)
        outside = build_outside(setup, journal, guard_age_s=GuardAge(context.baselines_path, clock))
        _log_orphans(journal, outside)
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
            logger.warning("still busy at stop: %s; the result is reported as unknown, or the action is repeated", busy)
        if context.simulated:
            _release(outside, NODE_ENDED, but=busy)
        with contextlib.suppress(TransientError):  # the next run reports it
            responder.publish()


def _log_orphans(journal: WorkQueue, outside: ResponderLanes) -> None:
    """Log what an earlier configuration switched on and this one does not manage."""
    managed = {(lane.hold.actuator, lane.hold.target) for lane in outside.switches()}
    for actuator, target in journal.held():
        if (actuator, target) not in managed:
            logger.error(
                "actuator %s removed from configuration but still active on %s; release it by hand", actuator, target
            )


def _guard_reader(
    context: RunContext, journal: WorkQueue, outside: ResponderLanes, clock: Clock
) -> RecordJournalReader:
    """Return the reader of the guard's journal from the saved position, or from the start of this run if simulated.

    A simulated node ends with its run: the holds of a killed one are released first.
    """
    run = (context.started_ns,)
    same = journal.position(RUN) == run
    position = journal.position(GUARD) if same or not context.simulated else None
    if not same:
        if context.simulated:
            journal.drop_waiting(now_ns=clock.utc_ns())
            _release(outside, LEFT_BEHIND)
        journal.take_in((), (), journal=RUN, position=run, now_ns=clock.utc_ns())
    # Without a saved position, decisions before this run are over.
    return context.journal_reader(GUARD, position or context.journal_starts().get(GUARD))


def _person_reader(context: RunContext, journal: WorkQueue) -> RecordJournalReader:
    """Return the reader of operators' commands from the saved position, or from now on without one."""
    position = journal.position(PERSON)
    reader = context.journal_reader(PERSON, position)
    if position is None:
        reader.skip_to_end()
    return reader


def _respond(context: RunContext, responder: Responder, outside: ResponderLanes, stop: Event, clock: Clock) -> None:
    status: dict[str, Any] = {}
    publish_at_s = clock.monotonic_s()
    in_trouble = False
    while True:
        ending = stop.wait(LOOK_S)
        try:
            responder.step()
            in_trouble = False
        except (TransientError, OSError) as err:
            if not in_trouble:
                logger.error("cannot take in decisions, will retry: %s", err)  # noqa: TRY400 -- the message is complete without a traceback
            in_trouble = True
        if clock.monotonic_s() >= publish_at_s or ending or outside.held() != status.get("held"):
            publish_at_s = clock.monotonic_s() + STATUS_EVERY_S
            status = _publish(context, responder, outside, status)
        if ending:
            return


def _publish(
    context: RunContext, responder: Responder, outside: ResponderLanes, last: dict[str, Any]
) -> dict[str, Any]:
    """Write the status file if the status changed or the file is missing; return what the file holds."""
    now = {
        "waiting": responder.waiting(),
        "silent": list(responder.silent),
        "actuators": outside.status(),
        "held": outside.held(),
    }
    if now != last or not context.responder_status_path.exists():
        try:
            replace_file(context.responder_status_path, json_bytes(now), synced=False)
        except OSError:
            return last
    return now


def _release(outside: ResponderLanes, reason: str, *, but: tuple[str, ...] = ()) -> None:
    for lane in outside.lanes:
        if lane.name in but:
            continue
        try:
            lane.release_all(reason)
        except TransientError as err:
            logger.error("cannot release %s: %s", lane.name, err)  # noqa: TRY400 -- the message is complete without a traceback


if __name__ == "__main__":
    run_child(main)
