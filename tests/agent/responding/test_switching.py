"""A switch is on while a claim wants it, off once the last is out; a switch set by others is never moved."""

from pathlib import Path

import pytest

from agent.responding.port import SwitchOwner
from agent.responding.switching import CHANGED_BY_OTHERS, EMPTY_EVERY_S, LEASE_S, LOOK_EVERY_S
from agent.responding.work import Task, work_of
from telemetry.commands import EVERYTHING
from telemetry.errors import ActionRefusedError, NotPermittedError, RailwatchError
from telemetry.records import Mode
from tests.agent.responding.rig import BUSY, TOKEN, FakeNode, Killed, Rig, decision


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_drain_is_engaged_with_its_token_and_its_incident_read_back_and_reported(rig: Rig) -> None:
    assert rig.engage() == ["applied"]
    assert (rig.switch.held, rig.switch.token) == (SwitchOwner.OURS, TOKEN)
    assert "i-1" in rig.switch.summary
    assert rig.reported[0].entity_id == "node:box"


def test_the_first_claim_engages_and_the_last_one_out_releases(rig: Rig) -> None:
    rig.engage("i-1")
    assert rig.engage("i-2") == ["applied"]
    assert rig.switch.writes == 1
    assert rig.release("i-1") == ["released"]
    assert "other claims remain" in rig.reported[-1].reason
    assert rig.is_ours()
    assert rig.release("i-2") == ["released"]
    assert not rig.is_ours()
    assert rig.switching.hold.is_over


def test_what_others_hold_is_refused_and_left(rig: Rig) -> None:
    rig.switch.by_person(SwitchOwner.OTHERS)
    assert rig.engage() == ["refused"]
    assert "left as is" in rig.reported[0].reason
    assert rig.switch.held is SwitchOwner.OTHERS
    assert rig.release() == []
    assert rig.switch.writes == 0


@pytest.mark.parametrize("held", [SwitchOwner.FREE, SwitchOwner.OTHERS])
def test_what_others_changed_is_noticed_released_and_not_done_again_for_that_incident(
    rig: Rig, held: SwitchOwner
) -> None:
    rig.engage()
    rig.switch.by_person(held)
    assert rig.later(LOOK_EVERY_S + 1) == ["released"]
    assert rig.reported[-1].reason == CHANGED_BY_OTHERS
    assert rig.engage() == ["refused"]
    assert rig.switch.held is held
    assert rig.switch.writes == 1


def test_what_a_person_undid_is_done_again_for_another_incident(rig: Rig) -> None:
    rig.engage("i-1")
    rig.switch.by_person(SwitchOwner.FREE)
    rig.later(LOOK_EVERY_S + 1)
    assert rig.engage("i-2") == ["applied"]


def test_a_drain_by_hand_over_ours_is_not_undone_by_the_release(rig: Rig) -> None:
    rig.engage()
    rig.switch.by_person(SwitchOwner.OTHERS)
    assert rig.release() == ["released"]
    assert CHANGED_BY_OTHERS in rig.reported[-1].reason
    assert rig.switch.held is SwitchOwner.OTHERS


def test_a_controller_that_is_down_is_asked_again_and_that_is_reported_once(rig: Rig) -> None:
    rig.switch.error = BUSY
    assert rig.engage() == ["failed"]
    assert rig.later(2.0) == []
    assert rig.later(5.0) == []
    rig.switch.error = None
    assert rig.later(60.0) == ["applied"]
    assert rig.tally.retried >= 2


def test_a_release_that_fails_is_owed_until_it_is_done(rig: Rig) -> None:
    rig.engage()
    rig.switch.error = BUSY
    assert rig.release() == ["failed"]
    rig.restart()
    assert rig.step() == []
    rig.switch.error = None
    assert rig.later(60.0) == ["released"]
    assert rig.switch.held is SwitchOwner.FREE


def test_a_drain_that_may_not_be_done_is_refused_and_nothing_is_held(rig: Rig) -> None:
    rig.switch.engage = refuse  # type: ignore[method-assign]
    assert rig.engage() == ["refused"]
    assert rig.switching.hold.is_over


def refuse(target: str, *, token: str, reason: str) -> None:
    raise NotPermittedError("scontrol: Invalid user id")


def test_what_was_written_before_a_refusal_came_is_taken_back(rig: Rig) -> None:
    rig.switch.late_error = NotPermittedError("no such right")
    assert rig.engage() == ["refused"]
    assert rig.is_ours()
    assert not rig.switching.hold.is_over
    rig.restart()
    assert rig.later(5.0) == ["released"]
    assert not rig.is_ours()
    assert rig.switching.hold.is_over


def test_a_switch_that_cannot_be_read_any_more_in_the_middle_of_it_is_not_forgotten(rig: Rig) -> None:
    rig.switch.late_error = Killed()
    rig.ask(Task.ENGAGE)
    with pytest.raises(Killed):
        rig.switching.step()
    rig.switch.error = NotPermittedError("the token has expired")
    rig.restart()
    assert rig.step() == ["refused"]
    rig.switch.error = None
    assert rig.later(60.0) == ["released"]
    assert not rig.is_ours()


def test_it_is_reported_once_what_ran_there_has_ended_and_a_kill_in_the_middle_of_that_loses_none(rig: Rig) -> None:
    node = FakeNode("a", "b", "c")
    rig.put(node)
    assert rig.engage() == []
    assert (node.pods, node.writes) == (["b", "c"], 1)
    node.empty_error = Killed()
    rig.clock.advance(EMPTY_EVERY_S)
    with pytest.raises(Killed):
        rig.switching.step()
    rig.restart()
    assert rig.step() == ["applied"]
    assert (node.pods, node.writes) == ([], 1)
    assert rig.reported[-1].reason == "the rail sags"
    asked = node.asked
    rig.restart()
    rig.later(LOOK_EVERY_S)
    assert node.asked == asked


def test_what_does_not_end_in_its_time_is_reported_and_stays(rig: Rig) -> None:
    rig.put(FakeNode("a", "b", "c", "d", "e", allowed=0))
    assert rig.engage() == []
    reports = [state for _ in range(20) for state in rig.later(EMPTY_EVERY_S)]
    assert reports == ["applied"]
    assert rig.reported[-1].reason == "the rail sags; not empty: a, b, c and 2 more"
    assert rig.is_ours()


@pytest.mark.parametrize("error", [NotPermittedError("no right to evict"), BUSY])
def test_where_nothing_may_be_ended_the_switch_stands_and_states_so(rig: Rig, error: RailwatchError) -> None:
    node = FakeNode("a")
    rig.put(node)
    reports: list[str] = []
    rig.ask(Task.ENGAGE)
    for _ in range(16):
        node.empty_error, node.pods = error, ["a"]
        reports += rig.later(EMPTY_EVERY_S)
    assert reports == ["applied"]
    assert str(error) in rig.reported[-1].reason
    assert rig.release() == ["released"]
    assert not rig.is_ours()


@pytest.mark.parametrize("held", [SwitchOwner.FREE, SwitchOwner.OTHERS])
def test_who_moves_it_while_what_runs_there_ends_is_respected(rig: Rig, held: SwitchOwner) -> None:
    rig.put(FakeNode("a", "b"))
    assert rig.engage() == []
    rig.switch.by_person(held)
    assert rig.later(EMPTY_EVERY_S) == ["released"]
    assert rig.reported[-1].reason == CHANGED_BY_OTHERS
    assert (rig.switch.held, rig.switch.writes) == (held, 1)


def test_a_release_does_not_wait_for_what_runs_there(rig: Rig) -> None:
    rig.put(FakeNode("a", "b", allowed=0))
    assert rig.engage() == []
    assert rig.release() == ["released"]
    assert not rig.is_ours()


def test_two_switches_share_one_pace(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    while not rig.pace.take(rig.clock.monotonic_s()):
        pass
    assert rig.engage() == []
    assert rig.switch.writes == 0
    assert rig.later(1.0) == ["applied"]


def test_a_retry_comes_although_the_clock_was_set_back(rig: Rig) -> None:
    rig.switch.error = BUSY
    assert rig.engage() == ["failed"]
    rig.switch.error = None
    rig.clock.step_utc(-86_400.0)
    assert rig.later(5.0) == ["applied"]


def test_what_a_person_takes_back_before_it_could_be_done_is_barred(rig: Rig) -> None:
    rig.switch.error = BUSY
    rig.engage("i-1")
    take_back(rig, EVERYTHING)
    assert rig.step() == ["released"]
    rig.switch.error = None
    assert rig.engage("i-1") == ["refused"]
    assert rig.switch.writes == 0


def take_back(rig: Rig, about: str) -> None:
    made = decision(next(rig.numbers), incident=about, time_ns=rig.clock.utc_ns())
    work = work_of(rig.switch.name, Task.TAKE_BACK, made, None)
    rig.journal.take_in([work], (), journal="person", position=(1, 2), now_ns=rig.clock.utc_ns())


@pytest.mark.parametrize("was_written", [True, False])
def test_after_a_kill_in_the_middle_of_it_the_next_process_ends_it(rig: Rig, *, was_written: bool) -> None:
    rig.switch.late_error = Killed()
    rig.ask(Task.ENGAGE)
    with pytest.raises(Killed):
        rig.switching.step()
    if not was_written:
        rig.switch.by_person(SwitchOwner.FREE)
    rig.restart()
    assert rig.step() == ["applied"]
    assert rig.switch.held is SwitchOwner.OURS
    assert rig.switch.writes == (1 if was_written else 2)


def test_after_a_kill_in_the_middle_of_the_release_the_next_process_ends_it(rig: Rig) -> None:
    rig.engage()
    rig.switch.late_error = Killed()
    rig.ask(Task.RELEASE)
    with pytest.raises(Killed):
        rig.switching.step()
    rig.restart()
    assert rig.step() == ["released"]
    assert rig.switch.held is SwitchOwner.FREE


def test_a_drain_stays_when_the_guard_is_dead_and_states_so_once(rig: Rig) -> None:
    rig.engage()
    rig.guard_age_s = LEASE_S + 1
    assert rig.later(1.0) == ["expired"]
    assert "stays on" in rig.reported[-1].reason
    assert rig.later(1.0) == []
    assert rig.switch.held is SwitchOwner.OURS
    rig.guard_age_s = 0.0
    assert rig.later(1.0) == ["renewed"]


def test_a_dry_run_reads_and_states_what_it_would_do(rig: Rig) -> None:
    assert rig.engage(mode=Mode.RECOMMEND) == ["done"]
    assert rig.reported[0].mode is Mode.RECOMMEND
    assert "nothing written: gpu0 is free" in rig.reported[0].reason
    assert rig.switch.writes == 0
    rig.switch.by_person(SwitchOwner.OTHERS)
    assert rig.engage(mode=Mode.RECOMMEND) == ["refused"]


def test_a_storm_does_not_write_more_often_than_its_pace(rig: Rig) -> None:
    for number in range(12):
        rig.engage(f"i-{number}")
        rig.release(f"i-{number}")
    assert rig.switch.writes <= 11  # ten at once, and one a second
    for _ in range(30):
        rig.later(2.0)
    assert rig.switch.held is SwitchOwner.FREE
    assert rig.switching.hold.is_over


def test_everything_is_given_back_on_demand(rig: Rig) -> None:
    rig.engage("i-1")
    rig.engage("i-2")
    rig.switching.release_all("the simulated node ended")
    assert rig.news() == ["released", "released"]
    assert {action.reason for action in rig.reported[-2:]} == {"the simulated node ended"}
    assert rig.switch.held is SwitchOwner.FREE


def test_the_same_work_is_done_once_however_often_it_is_reported(rig: Rig) -> None:
    work = rig.ask(Task.ENGAGE)
    rig.step()
    assert rig.journal.take_in([work], (), journal="guard", position=(1, 3), now_ns=rig.clock.utc_ns()) == 0
    assert rig.step() == []


def test_a_refusal_while_it_stands_is_owed(rig: Rig) -> None:
    rig.engage()
    rig.switch.error = ActionRefusedError("no")
    assert rig.release() == ["failed"]
    assert not rig.switching.hold.is_over
