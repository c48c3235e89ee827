"""A message is sent once: after a kill it is sent again only where twice does no harm, else reported as unknown."""

from pathlib import Path

import pytest

from agent.responding.port import Receipt
from agent.responding.sending import DELIVERY_POLICIES, UNKNOWN
from agent.responding.work import Task
from rules.policy.model import ActionClass
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.records import Mode
from tests.agent.responding.rig import BUSY, Killed, Rig


def test_a_message_is_sent_once_and_what_came_of_it_is_reported(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.ask(Task.SEND)
    assert rig.step() == ["done"]
    assert rig.reported[0].reason == "said"
    rig.restart()
    assert rig.step() == []
    assert len(rig.message.sent) == 1


def test_a_no_of_the_other_side_is_reported_as_failed_and_not_sent_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.message.receipt = Receipt(summary="exit status 3", done=False)
    rig.ask(Task.SEND)
    assert rig.step() == ["failed"]
    assert rig.later(100.0) == []


def test_what_may_work_later_is_tried_again_with_the_same_token(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.message.errors = [BUSY, BUSY]
    work = rig.ask(Task.SEND)
    assert rig.step() == ["failed"]
    assert rig.later(0.5) == []
    assert rig.later(1.0) == []
    assert rig.later(3.0) == ["done"]
    assert [order.token for order in rig.message.sent] == [work.token]


def test_what_was_refused_is_not_tried_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.message.errors = [ActionRefusedError("not on the list")]
    rig.ask(Task.SEND)
    assert rig.step() == ["refused"]
    assert rig.later(100.0) == []


@pytest.mark.parametrize("again", [True, False])
def test_a_kill_between_journal_and_answer(tmp_path: Path, *, again: bool) -> None:
    rig = Rig(tmp_path, again=again)

    def die() -> None:
        raise Killed

    rig.message.on_send = die
    rig.ask(Task.SEND)
    with pytest.raises(Killed):
        rig.sending.step()
    rig.message.on_send = lambda: None
    rig.restart()
    assert rig.step() == (["done"] if again else ["failed"])
    assert len(rig.message.sent) == (2 if again else 1)
    assert (rig.reported[-1].reason == UNKNOWN) is not again
    assert rig.tally.unknown == (0 if again else 1)


def test_only_what_does_no_harm_twice_is_sent_again() -> None:
    harmless = {ActionClass.NOTIFY, ActionClass.CHECKPOINT, ActionClass.POWER_CYCLE}
    assert {one for one, manner in DELIVERY_POLICIES.items() if manner.again} == harmless


def test_what_comes_too_late_is_left_out(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.ask(Task.SEND)
    assert rig.later(601.0) == ["refused"]
    assert rig.message.sent == []


def test_a_dry_run_looks_and_sends_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.ask(Task.SEND, mode=Mode.RECOMMEND)
    assert rig.step() == ["done"]
    assert rig.reported[0].reason == "nothing sent: would say"
    assert (rig.message.checked, rig.message.sent) == (1, [])


def test_what_was_sent_while_the_journal_cannot_be_written_is_noted_late_and_not_sent_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    end = rig.journal.end

    def full(*_: object, **__: object) -> None:
        raise TransientError("no space left")

    rig.journal.end = full  # type: ignore[method-assign]  # a disk that is full for a while
    rig.ask(Task.SEND)
    with pytest.raises(TransientError):
        rig.sending.step()
    rig.journal.end = end  # type: ignore[method-assign]  # and has room again
    assert rig.step() == ["done"]
    assert len(rig.message.sent) == 1


def test_a_storm_is_sent_at_its_pace(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for number in range(15):
        rig.ask(Task.SEND, incident=f"i-{number}")
    rig.step()
    assert len(rig.message.sent) == 10
    rig.later(2.0)
    assert len(rig.message.sent) == 12
    for _ in range(3):
        rig.later(1.0)
    assert len(rig.message.sent) == 15
