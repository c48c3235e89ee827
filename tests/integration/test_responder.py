"""Responder process killed at any time: each order is carried out once or reported as unknown, no drain is lost."""

import random
from pathlib import Path

import pytest

from agent.responding.sending import UNKNOWN
from railwatch.operator.release import held_outside, release_outside
from railwatch.operator.verify import verify_outside
from telemetry.clock import SystemClock
from telemetry.records import ActionState
from tests.integration.responding import Run, a_moment, token_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
# A hook takes 50 ms here and a drain four programs of 50 ms each: kills fall before, into and behind all of it.
LONGEST_S = 0.5


def kill_at_random(folder: Path, *, times: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a test that can be run again
    run = Run.begin(folder)
    with run.processes() as processes:
        for number in range(times):
            # Each incident drains, and at every second round all give back again.
            incident = f"i-{number}"
            processes.start()
            run.decide("hook", incident=incident, program="tell")
            run.decide("checkpoint", incident=incident)
            run.decide("drain", incident=incident)
            if number % 2:
                run.decide("drain_release", incident=incident)
                run.decide("drain_release", incident=f"i-{number - 1}")
            a_moment(chance.uniform(0.0, LONGEST_S))
            processes.kill()
            run.until_quiet()
            assert not run.is_drained() or run.holds(), f"after kill {number} a drain stands that nobody claims"
        processes.start()
        run.until_done(processes)
    check(run)


def check(run: Run) -> None:
    reported = run.reported()
    ran = run.ran()
    for decision in run.decisions:
        ends = [one for one in reported if one.decision_id == decision.id and not one.reason.endswith("tried again")]
        if decision.action == "hook":
            (end,) = ends
            times = ran.count(token_for(decision))
            assert times == 1 if end.state is ActionState.DONE else (end.reason == UNKNOWN and times <= 1), end
        elif decision.action == "checkpoint":
            assert [one.state for one in ends] == [ActionState.DONE]
        elif decision.action == "drain":
            assert ActionState.APPLIED in {one.state for one in ends} or ends[-1].state is ActionState.RELEASED
    assert run.is_drained() is any(hold.claims for hold in run.holds())


def test_killed_at_twenty_points(tmp_path: Path) -> None:
    kill_at_random(tmp_path, times=20, seed=1)


@pytest.mark.soak
def test_killed_at_two_hundred_points(tmp_path: Path) -> None:
    kill_at_random(tmp_path, times=200, seed=2)


def test_what_was_decided_before_this_run_is_not_carried_out_and_what_came_while_it_was_away_is(tmp_path: Path) -> None:
    run = Run.begin(tmp_path)
    run.decide("hook", incident="i-old", program="tell")
    reader = run.context.journal_reader("guard")
    reader.skip_to_end()
    run.context.keep_journal_starts({"guard": reader.position})
    run.decisions.clear()
    now = run.decide("hook", incident="i-now", program="tell")
    with run.process() as child:
        run.until_done(child)
    assert run.ran() == [token_for(now)]
    later = run.decide("hook", incident="i-later", program="tell")
    with run.process() as child:
        run.until_done(child)
    assert run.ran() == [token_for(now), token_for(later)]


def test_a_class_for_which_nothing_is_set_up_is_refused_with_the_key(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, actuators={})
    run.decide("drain", incident="i-1")
    with run.process() as child:
        run.until_done(child)
    (action,) = run.reported()
    assert action.state is ActionState.REFUSED
    assert "no actuator is configured for drain" in action.reason


def test_a_drain_outlives_the_process_and_a_clean_end(tmp_path: Path) -> None:
    run = Run.begin(tmp_path)
    run.decide("drain", incident="i-1")
    with run.process() as child:
        run.until_done(child)
    assert run.is_drained()
    assert [claim.incident_id for hold in run.holds() for claim in hold.claims] == ["i-1"]


def test_what_a_simulated_node_holds_ends_with_it(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, simulated=True)
    run.decide("drain", incident="i-1")
    with run.process() as child:
        run.until_done(child)
    assert not run.is_drained()
    assert run.reported()[-1].reason == "the simulated node ended"
    assert run.holds() == ()


def test_what_a_simulated_node_that_was_killed_held_is_given_back_by_the_next_one(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, simulated=True)
    with run.processes() as processes:
        processes.start()
        run.decide("drain", incident="i-1")
        run.until(run.is_drained)
        processes.kill()
        assert run.is_drained()
        run.restart()
        processes.start()
        run.until(lambda: any(one.state is ActionState.RELEASED for one in run.reported()))
    assert not run.is_drained()


def test_a_real_node_that_was_killed_goes_on_to_hold_what_it_held(tmp_path: Path) -> None:
    run = Run.begin(tmp_path)
    with run.processes() as processes:
        processes.start()
        run.decide("drain", incident="i-1")
        run.until(lambda: any(one.state is ActionState.APPLIED for one in run.reported()))
        processes.kill()
        run.restart()
        processes.start()
        run.decide("drain_release", incident="i-1")
        run.until(lambda: any(one.state is ActionState.RELEASED for one in run.reported()))
    assert not run.is_drained()


def test_a_person_takes_a_drain_back_and_that_incident_does_not_drain_again(tmp_path: Path) -> None:
    run = Run.begin(tmp_path)
    with run.processes() as processes:
        processes.start()
        run.decide("drain", incident="i-1")
        run.decide("drain", incident="i-2")
        run.until(lambda: held_outside(run.context) == ("i-1", "i-2"))
        (found,) = verify_outside(run.context, SystemClock())
        assert (found.agrees, found.incidents) == (True, ("i-1", "i-2"))
        (tmp_path / "scontrol").rename(tmp_path / "away")
        assert [one.agrees for one in verify_outside(run.context, SystemClock())] == [None]
        (tmp_path / "away").rename(tmp_path / "scontrol")
        (first,) = release_outside(run.context, "i-1", SystemClock(), who="ann", why="")
        assert first.state is ActionState.RELEASED
        assert "released by hand by ann" in first.reason
        assert run.is_drained()
        release_outside(run.context, None, SystemClock(), who="ann", why="")
        assert not run.is_drained()
        run.decide("drain", incident="i-1")
        run.until(lambda: any(one.state is ActionState.REFUSED for one in run.reported()))
        assert not run.is_drained()
        assert release_outside(run.context, None, SystemClock(), who="ann", why="") == ()
