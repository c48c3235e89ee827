"""Carries out what is decided outside the GPU: takes decisions in, hands them to their actuators, tells what came."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from agent.responding.intake import Taken, take, work_of_command
from agent.responding.work import Phase, Task, Work, action_of, claim_of, work_of
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
# An actuator looks again this often although nobody called: at leases, and at a disk that was full.
IDLE_S = 1.0
# After its journal could not be written. Heuristic.
TROUBLE_PAUSE_S = 2.0


class Lane(Protocol):
    """One actuator with what waits for it; a thread of its own owns it."""

    name: str

    def step(self) -> float | None:
        """Do what is due; gives how many seconds there are until the next is, None where nothing waits."""
        ...

    def let_go(self, reason: str) -> None:
        """Release what is held."""
        ...


class RecordSink(Protocol):
    """Where records go."""

    def append(self, record: Record) -> None:
        """Keep one record."""
        ...


class Responder:
    """The lanes of one node and what feeds them.

    Parameters
    ----------
    guard
        The guard's journal, at the place from which it is to be followed.
    routes
        The actuators of each class, by name.
    followers
        Called with every news of an incident, in the thread that takes decisions in.
    person
        The journal of what people say, who may take back what stands; None where nobody is listened to.
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
        """Take in what was decided and tell what came of it; gives how much was new. TransientError as the journal."""
        fresh = self._take_in()
        self._listen()
        self.tell()
        return fresh

    def tell(self) -> None:
        """Report what came of work; what a kill leaves here is told again as it was, with the same id and time."""
        outbox = self._journal.outbox()
        for _, action in outbox:
            self._sink.append(action)
        if outbox:
            self._journal.told(outbox[-1][0])

    def stop(self, *, timeout_s: float) -> tuple[str, ...]:
        """Stop every lane; gives those that were still busy when the time was over."""
        for lane in self._lanes.values():
            lane.ask_to_stop()
        until_s = self._clock.monotonic_s() + timeout_s
        return tuple(
            name for name, lane in self._lanes.items() if not lane.join(max(0.0, until_s - self._clock.monotonic_s()))
        )

    @property
    def silent(self) -> tuple[str, ...]:
        """The lanes whose thread has ended."""
        return tuple(name for name, lane in self._lanes.items() if not lane.is_alive)

    def waiting(self) -> int:
        """Return how much work waits or is under way."""
        return self._journal.count(Phase.WAITING) + self._journal.count(Phase.BEGUN)

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
            actions=self._homeless(taken),
        )
        del self._unread[GUARD]
        for incident in taken.incidents:
            for follow in self._followers:
                follow(incident)
        self._wake(taken.works)
        return fresh

    def _listen(self) -> None:
        """Take in what people take back."""
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
        """Return what one journal brought and up to where; no place where it brought nothing.

        What is read is kept until it is taken in: the reader goes on only from there.
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

    def _homeless(self, taken: Taken) -> tuple[Action, ...]:
        return tuple(_nobody_can(decision, self._clock.utc_ns()) for decision in taken.homeless)


def _nobody_can(decision: Decision, now_ns: int) -> Action:
    work = work_of(decision.action, Task.SEND, decision, None)
    return action_of(
        knob=decision.action,
        claim=claim_of(work, lease_s=0.0),
        state=ActionState.REFUSED,
        reason=f"nothing is set up for {decision.action} in the section actuators",
        time_ns=now_ns,
        mode=decision.mode,
    )


class LaneThread:
    """Runs one lane until told to stop."""

    def __init__(self, lane: Lane, clock: Clock) -> None:
        self._lane = lane
        self._clock = clock
        self._called = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lane-{lane.name}", daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def wake(self) -> None:
        """Report it that there is work; any thread may."""
        self._called.set()

    def ask_to_stop(self) -> None:
        """Have it stop after what it is at."""
        self._stop.set()
        self._called.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; False where it has not come in time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        in_trouble = False
        while not self._stop.is_set():
            try:
                wait_s = self._lane.step()
                in_trouble = False
            except TransientError as err:
                if not in_trouble:
                    logger.error("%s waits: %s", self._lane.name, err)  # noqa: TRY400 -- the reason says it all
                in_trouble, wait_s = True, TROUBLE_PAUSE_S
            except Exception:  # supervisor of actuators: a defect in one may not end it
                logger.exception("%s failed", self._lane.name)
                wait_s = TROUBLE_PAUSE_S
            self._called.wait(IDLE_S if wait_s is None else min(wait_s, IDLE_S))
            self._called.clear()
