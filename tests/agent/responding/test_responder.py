"""From the guard's journal to the actuators and back into the responder's own, in real threads."""

import threading
from pathlib import Path

from agent.responding.pacing import RateLimit
from agent.responding.responder import Responder
from agent.responding.sending import DeliveryPolicy, MessageSender
from agent.responding.work import ActuatorCounts
from agent.responding.work_queue import WorkQueue
from rules.policy.model import ActionClass
from telemetry.clock import SystemClock
from telemetry.errors import TransientError
from telemetry.record_journal import RecordJournalReader, RecordJournalWriter
from telemetry.records import Action, ActionState, Incident, Record
from tests.agent.responding.rig import FakeMessage, decision, incident

CLOCK = SystemClock()


class Kept:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, record: Record) -> None:
        self.records.append(record)

    @property
    def states(self) -> list[tuple[str, ActionState]]:
        return [(one.knob, one.state) for one in self.records if isinstance(one, Action)]


class Node:
    def __init__(self, folder: Path) -> None:
        self.journal = WorkQueue(folder)
        self.guard = RecordJournalWriter(folder / "guard.jsonl")
        self.message = FakeMessage()
        self.sent = threading.Event()
        self.message.on_send = self.sent.set
        self.sink = Kept()
        self.followed: list[Incident] = []
        lane = MessageSender(
            self.message,
            DeliveryPolicy(again=False, good_for_s=1e12),
            self.journal,
            CLOCK,
            tally=ActuatorCounts(),
            pace=RateLimit(),
        )
        self.responder = Responder(
            [lane],
            self.journal,
            RecordJournalReader(folder / "guard.jsonl"),
            self.sink,
            CLOCK,
            routes={ActionClass.HOOK: (lane.name,)},
            followers=(self.followed.append,),
        )

    def until_reported(self, count: int) -> None:
        end_s = CLOCK.monotonic_s() + 60.0
        while len(self.sink.records) < count:
            self.responder.step()
            assert CLOCK.monotonic_s() < end_s
            self.sent.wait(0.01)


def test_a_decision_is_sent_and_reported_and_the_next_one_too(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.responder.start()
    for number in (1, 2):
        node.guard.append(incident())
        node.guard.append(decision(number, action="hook"))
        node.until_reported(number)
    assert node.sink.states == [("fake_message", ActionState.DONE)] * 2
    assert node.followed == [incident(), incident()]
    assert node.responder.waiting() == 0
    assert node.responder.silent == ()
    assert node.responder.stop(timeout_s=60.0) == ()


def test_a_decision_that_no_lane_can_carry_out_is_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.guard.append(decision(action="requeue"))
    node.until_reported(1)
    (action,) = node.sink.records
    assert isinstance(action, Action)
    assert "section actuators" in action.reason


def test_a_journal_that_cannot_be_written_loses_no_decision(tmp_path: Path) -> None:
    node = Node(tmp_path)
    take_in = node.journal.take_in

    def full(*_: object, **__: object) -> int:
        raise TransientError("no space left")

    node.journal.take_in = full  # type: ignore[method-assign]  # a disk that is full for a while
    node.guard.append(decision(action="hook"))
    for _ in range(2):
        try:
            node.responder.step()
        except TransientError as err:
            assert "no space" in str(err)  # noqa: PT017 -- both looks have to fail
        else:
            raise AssertionError
    node.journal.take_in = take_in  # type: ignore[method-assign]  # and has room again
    node.responder.start()
    node.until_reported(1)
    node.responder.stop(timeout_s=60.0)
    assert len(node.message.sent) == 1


def test_the_pace_lets_a_burst_through_and_then_one_a_second() -> None:
    pace = RateLimit(per_s=1.0, burst=3.0)
    assert [pace.take(0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert pace.take(0.5) == 0.5
    assert pace.take(1.0) == 0.0
    assert [pace.take(100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
