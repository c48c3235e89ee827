"""Carries out decisions outside the GPU: reads them, passes them to their actuators, publishes the results."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from agent.responding.intake import take, work_of_command
from agent.responding.work import Task, Work, WorkPhase, action_of, claim_of, work_of
from agent.responding.work_queue import WorkQueue
from rules.policy.model import ActionClass
from telemetry.clock import Clock
from telemetry.commands import Command
from telemetry.errors import TransientError
from telemetry.record_journal import Position, RecordJournalReader
from telemetry.records import Action, ActionState, Decision, Incident, Record

logger = logging.getLogger(__name__)

GUARD = "guard"
PERSON = "person"
# An actuator wakes this often without new work: for leases, and for a disk that was full.
IDLE_S = 1.0
# heuristic: pause after the work queue could not be written.
TROUBLE_PAUSE_S = 2.0


class Lane(Protocol):
    """Actuator and its waiting work, owned by a thread of its own."""

    name: str

    def step(self) -> float | None:
        """Do what is due; return the seconds until the next, None if nothing waits."""
        ...

    def release_all(self, reason: str) -> None:
        """Release every held switch."""
        ...


class RecordSink(Protocol):
    """Receiver of records."""

    def append(self, record: Record) -> None:
        """Keep one record."""
        ...


class Responder:
    """The actuators outside the GPUs of one node, and the journals that feed them.

    Parameters
    ----------
    guard
        The guard's journal, at the position to follow it from.
    routes
        The actuators of each class, by name.
    followers
        Called with every update of an incident, in the thread that reads decisions.
    person
        Journal of operator commands, which may release what is held; None reads none.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        journal: WorkQueue,
        guard: RecordJournalReader,
        sink: RecordSink,
        clock: Clock,
        *,
        routes: Mapping[ActionClass, Sequence[str]],
        followers: Sequence[Callable[[Incident], None]] = (),
        person: RecordJournalReader | None = None,
    ) -> None:
        self._journal = journal
        self._person = person
        self._followers = tuple(followers)
        self._guard = guard
        self._sink = sink
        self._clock = clock
        self._routes = routes
        self._lanes = {lane.name: LaneThread(lane, clock) for lane in lanes}
        self._unread: dict[str, list[Record]] = {}

    def start(self) -> None:
        """Start every lane."""
        for lane in self._lanes.values():
            lane.start()

    def step(self) -> int:
        """Read decisions and commands, publish results; return the number of new entries. TransientError: disk full."""
        fresh = self._take_in()
        self._read_commands()
        self.publish()
        return fresh

    def publish(self) -> None:
        """Publish the results of work; after a kill they are published again with the same id and time."""
        outbox = self._journal.outbox()
        for _, action in outbox:
            self._sink.append(action)
        if outbox:
            self._journal.note_published(outbox[-1][0])

    def stop(self, *, timeout_s: float) -> tuple[str, ...]:
        """Stop every lane; return the names of those that were still busy at the time limit."""
        for lane in self._lanes.values():
            lane.request_stop()
        until_s = self._clock.monotonic_s() + timeout_s
        return tuple(
            name for name, lane in self._lanes.items() if not lane.join(max(0.0, until_s - self._clock.monotonic_s()))
        )

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of the lanes whose thread has ended."""
        return tuple(name for name, lane in self._lanes.items() if not lane.is_alive)

    def waiting(self) -> int:
        """Return the number of entries that wait or are under way."""
        return self._journal.count(WorkPhase.WAITING) + self._journal.count(WorkPhase.BEGUN)

    def _take_in(self) -> int:
        records, position = self._read(self._guard, GUARD)
        if position is None:
            return 0
        taken = take(records, self._routes, incident_of=self._journal.incident, sent_for=self._journal.sent_for)
        fresh = self._journal.take_in(
            taken.works,
            taken.incidents,
            journal=GUARD,
            position=position,
            now_ns=self._clock.utc_ns(),
            actions=tuple(_no_actuator(decision, self._clock.utc_ns()) for decision in taken.unroutable),
        )
        del self._unread[GUARD]
        for incident in taken.incidents:
            for follow in self._followers:
                follow(incident)
        self._wake(taken.works)
        return fresh

    def _read_commands(self) -> None:
        """Read operator commands that release held switches."""
        if self._person is None:
            return
        records, position = self._read(self._person, PERSON)
        if position is None:
            return
        names = self._routes.get(ActionClass.DRAIN, ())
        works = [work for record in records if isinstance(record, Command) for work in work_of_command(record, names)]
        self._journal.take_in(works, (), journal=PERSON, position=position, now_ns=self._clock.utc_ns())
        del self._unread[PERSON]
        self._wake(works)

    def _read(self, reader: RecordJournalReader, name: str) -> tuple[list[Record], Position | None]:
        """Return the new records of one journal and the position behind them; no position if there are none.

        Records are kept until the work queue has them, because the reader does not go back.
        """
        unread = self._unread.setdefault(name, [])
        unread += reader.read()
        position = reader.position
        if not unread and position == self._journal.position(name):
            return unread, None
        return unread, position

    def _wake(self, works: Sequence[Work]) -> None:
        for name in {work.actuator for work in works}:
            self._lanes[name].wake()


def _no_actuator(decision: Decision, now_ns: int) -> Action:
    work = work_of(decision.action, Task.SEND, decision, None)
    return action_of(
        knob=decision.action,
        claim=claim_of(work, lease_s=0.0),
        state=ActionState.REFUSED,
        reason=f"no actuator is configured for {decision.action}: section actuators",
        time_ns=now_ns,
        mode=decision.mode,
    )


class LaneThread:
    """Thread that runs one lane until a stop is requested."""

    def __init__(self, lane: Lane, clock: Clock) -> None:
        self._lane = lane
        self._clock = clock
        self._called = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lane-{lane.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Wake the lane for new work; any thread may call it."""
        self._called.set()

    def request_stop(self) -> None:
        """Request a stop after the current step."""
        self._stop.set()
        self._called.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; return False if the time limit passed."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        """True if its thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        in_trouble = False
        while not self._stop.is_set():
            try:
                wait_s = self._lane.step()
                in_trouble = False
            except TransientError as err:
                if not in_trouble:
                    logger.error("%s is blocked, retrying every %g s: %s", self._lane.name, TROUBLE_PAUSE_S, err)  # noqa: TRY400 -- the reason suffices
                in_trouble, wait_s = True, TROUBLE_PAUSE_S
            except Exception:  # supervisor of actuators: a defect in one may not end it
                logger.exception("%s failed, retrying", self._lane.name)
                wait_s = TROUBLE_PAUSE_S
            self._called.wait(IDLE_S if wait_s is None else min(wait_s, IDLE_S))
            self._called.clear()
