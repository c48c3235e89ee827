"""The guard with a real actuator behind its socket: it acts, repeats lost requests, and obeys operators' commands."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time

import pytest

from agent.actuation.claims import CapRequest
from agent.guard import guard as guard_module
from telemetry.gpu import ReleasedBy
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Action, ActionState, Decision, Event, EventKind, IncidentState, Mode, Severity
from tests.agent.guard.box import GPUS, ROW_NS, WEAK_OHM, done, make_pipeline
from tests.agent.guard.deaf_actuator import decided
from tests.agent.guard.rig import Rig
from tests.analytics.scenes import event_of
from tests.waiting import wait_for


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def test_a_sag_is_answered_within_the_step_that_sees_it(rig: Rig) -> None:
    rig.tick(40)
    rig.box.resistance_ohm = 0.017
    assert rig.capped() == {1530.0}
    rig.row()
    step = rig.guard.step()
    assert step.findings
    assert len(rig.capped()) == 1
    assert rig.capped() < {clock for clock in rig.knob.settable if clock < 1530.0}
    assert [type(record).__name__ for record in rig.sink.records][:2] == ["Finding", "Finding"]
    rig.tick(300)
    assert rig.pipeline._incidents[rig.incident_id].state is IncidentState.MITIGATED
    assert rig.guard.failures == 0


def test_an_actuator_that_is_away_gets_the_cap_when_it_is_back(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.stop_actuator()
    rig.sag()
    rig.tick(20)
    assert rig.capped() == {1530.0}
    assert caplog.text.count("did not answer") == 1
    rig.start_actuator()
    rig.tick(120)
    assert rig.capped() == {rig.pipeline.engine.claims[0].strictest}
    applied = [(a.decision_id, a.entity_id) for a in rig.journal() if a.state is ActionState.APPLIED]
    assert len(applied) == len(set(applied)), "each decision is carried out once"
    assert rig.guard.failures == 0


class TakenBackAtOnce:
    """A person releases everything between the cap and its answer; otherwise the client of the rig."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.renew = rig.client.renew
        self.release = rig.client.release
        self.in_force = rig.client.in_force

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        answer = self._rig.client.apply(request)
        self._rig.clock.advance(0.001)
        self._rig.client.release_all(reason="a person wants it so")
        self._rig.guard._look_at_s = 0.0
        return answer


def test_a_release_that_is_received_of_together_with_the_cap_comes_after_it(rig: Rig) -> None:
    rig.guard._requests._actuator = TakenBackAtOnce(rig)
    rig.sag()
    assert rig.capped() == {1530.0}
    assert rig.pipeline.engine.claims == ()
    assert rig.pipeline._in_force == {}, "nothing holds the incident down any more"


def test_a_step_that_raises_is_counted_and_the_next_one_goes_on(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def broken(events: object, *_: object) -> None:
        raise ZeroDivisionError("a defect")

    stop = threading.Event()
    thread = threading.Thread(target=rig.guard.run, args=(stop,))
    whole = rig.pipeline.step
    rig.pipeline.step = broken  # type: ignore[method-assign, assignment]  # a detector with a defect
    thread.start()
    try:
        rig.guard.wake()
        wait_for(lambda: rig.guard.failures >= 1)
        rig.pipeline.step = whole  # type: ignore[method-assign]
        rig.box.resistance_ohm = 0.017
        for _ in range(30):
            rig.row()
            rig.guard.wake()
        wait_for(lambda: len(rig.capped() - {1530.0}) == 1)
    finally:
        stop.set()
        thread.join(60.0)
    assert "guard step failed" in caplog.text
    assert "ZeroDivisionError: a defect" in caplog.text


def test_leases_are_renewed_before_they_run_out(rig: Rig) -> None:
    rig.sag()
    for _ in range(40):
        rig.clock.advance(10.0)
        rig.tick()
    assert ActionState.EXPIRED not in rig.states()
    assert rig.states().count(ActionState.RENEWED) >= 4 * 3


def test_a_lease_that_ran_out_meanwhile_is_begun_again(rig: Rig) -> None:
    rig.sag()
    wanted_mhz = rig.pipeline.engine.claims[0].strictest
    rig.clock.advance(130.0)
    wait_for(lambda: rig.states().count(ActionState.EXPIRED) == 4)
    rig.box.time_ns = rig.clock.utc_ns()
    rig.tick(60)
    assert rig.pipeline.engine.claims
    assert all(action.lease_until_ns for action in rig.client.in_force())
    assert rig.capped() == {min(wanted_mhz, rig.pipeline.engine.claims[0].strictest)}


def test_a_restarted_guard_asserts_its_claims_again(rig: Rig) -> None:
    rig.sag()
    capped, incident_id = rig.capped(), rig.incident_id
    rig.stop_actuator()
    assert rig.capped() == {1530.0}
    rig.start_actuator()
    rig.start_guard()
    assert rig.capped() == capped
    assert rig.incident_id == incident_id
    assert rig.states()[-1] is ActionState.APPLIED


def test_a_run_that_only_observes_sets_no_cap_of_an_earlier_run_again(rig: Rig) -> None:
    rig.sag()
    rig.stop_actuator()
    rig.knob.writes.clear()
    rig.start_actuator()
    rig.start_guard(make_pipeline(Mode.OBSERVE))
    for _ in range(4):
        rig.clock.advance(31.0)
        rig.tick(10)
    assert rig.knob.writes == []
    assert rig.capped() == {1530.0}


def test_a_guard_that_cannot_read_its_snapshot_states_so_and_starts_empty(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    (rig.folder / "guard.json").write_text('{"book": 1}')
    rig.start_guard()
    assert "cannot read the open incidents" in caplog.text
    rig.sag()
    assert rig.capped() != {1530.0}


def test_what_a_person_takes_back_stays_back_until_the_incident_closes(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.sag()
    incident_id = rig.incident_id
    rig.client.release_incident(incident_id, reason="taken back by hand", bar=True)
    rig.tick(60 * 20 // 4)
    assert rig.capped() == {1530.0}
    assert rig.pipeline.engine.claims == ()
    assert f"incident {incident_id}: action released by an operator" in caplog.text
    rig.tick(20 * 20)
    refused = [r for r in rig.sink.records if isinstance(r, Decision) and "a person released the action" in r.reason]
    assert len(refused) == 1
    assert rig.capped() == {1530.0}
    assert rig.states().count(ActionState.REFUSED) <= 4, "told at most once, and not asked for again"


def test_a_clock_that_a_person_set_is_left_alone(rig: Rig) -> None:
    rig.sag()
    assert rig.capped() != {1005.0}
    for uuid in rig.knob.settings:
        rig.knob.settings[uuid] = 1005.0
    for _ in range(8):
        rig.clock.advance(10.0)
        rig.tick(25)
    assert rig.capped() == {1005.0}
    assert rig.pipeline.engine.claims == ()


def test_what_a_person_took_back_while_the_guard_was_away_is_not_set_again(rig: Rig) -> None:
    rig.sag()
    rig.client.release_incident(rig.incident_id, reason="taken back by hand", bar=True)
    rig.start_guard()
    assert rig.capped() == {1530.0}
    assert rig.pipeline.engine.claims == ()
    assert ActionState.REFUSED not in rig.states()


def test_an_actuator_that_ended_by_itself_gets_the_caps_again(rig: Rig) -> None:
    rig.sag()
    rig.stop_actuator()
    rig.start_actuator()
    rig.tick(60)
    assert rig.capped() == {rig.pipeline.engine.claims[0].strictest}


def test_an_actuator_that_lost_its_journal_is_found_out_at_the_next_renewal(rig: Rig) -> None:
    rig.sag()
    incident_id = rig.incident_id
    rig.guard._journal = None
    rig.client.release_incident(incident_id, reason="nobody says so")
    assert rig.capped() == {1530.0}
    rig.clock.advance(31.0)
    rig.tick(10)
    assert rig.capped() == {rig.pipeline.engine.claims[0].strictest}


def test_its_own_release_is_not_taken_for_a_persons(rig: Rig) -> None:
    rig.sag()
    (decision,) = [r for r in rig.sink.records if isinstance(r, Decision) and r.clock_mhz is not None]
    rig.pipeline.engine._memory.claims.clear()  # as after the last round of relaxing
    actions = rig.guard._requests.carry_out(decision)
    assert [action.state for action in actions] == [ActionState.RELEASED] * 4
    assert rig.capped() == {1530.0}
    rig.guard._look_at_s = 0.0
    assert len(rig.guard._process_actions(rig.guard._read_journal(), rig.clock.utc_ns())) == 1
    watches = rig.pipeline.engine._memory.watches.values()
    assert [watch.barred for watch in watches if watch.barred] == []


def test_an_old_action_in_the_journal_is_not_received_at_a_first_start(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.sag()
    first.client.release_incident(first.incident_id, reason="taken back by hand", bar=True)
    first.close()
    (tmp_path / "guard.json").unlink()
    second = Rig(tmp_path)
    try:
        assert second.guard._read_journal() == ()
    finally:
        second.close()


def test_a_cap_that_the_ending_actuator_released_is_requested_again(rig: Rig) -> None:
    rig.sag()
    rig.stop_actuator()
    assert rig.capped() == {1530.0}
    assert {action.released_by for action in rig.journal() if action.state is ActionState.RELEASED} == {
        ReleasedBy.ACTUATOR
    }
    rig.start_actuator()
    rig.tick(120)
    assert rig.capped() == {rig.pipeline.engine.claims[0].strictest}


def test_a_table_that_counts_again_is_read_from_its_beginning(rig: Rig) -> None:
    rig.tick(30)
    for name in rig.ring.tables:
        rig.guard._reader.nexts[name] = 10_000
    rig.box.resistance_ohm = 0.017
    rig.tick(2)
    assert rig.guard.failures == 0
    assert rig.capped() != {1530.0}


def test_events_beyond_the_bound_are_counted(rig: Rig) -> None:
    event: Event = event_of(entity_id=GPUS[0].id)
    for _ in range(guard_module.MAX_EVENTS + 3):
        rig.guard.add_event(event)
    assert rig.guard.events_dropped == 3
    step = rig.guard.step()
    assert len(step.incidents) == 1


def test_a_snapshot_that_cannot_be_written_is_reported_and_the_cap_stands(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    (rig.folder / "guard.json.new").mkdir()
    with caplog.at_level(logging.ERROR):
        rig.sag()
    assert "cannot save open incidents" in caplog.text
    assert rig.capped() != {1530.0}


def test_an_action_that_this_guard_did_not_request_changes_nothing(rig: Rig) -> None:
    assert rig.guard._process_actions(done(decided()[3], ActionState.RELEASED, now_ns=ROW_NS), ROW_NS) == ()


def test_a_quiet_step_is_cheap(rig: Rig) -> None:
    rig.tick(20)
    begun_s = process_time()  # of this process alone: what else the machine does is not counted
    rig.tick(100)
    assert process_time() - begun_s < 2.0


def test_a_finding_that_is_raised_asks_for_a_closer_look(rig: Rig) -> None:
    rig.tick(40)
    assert rig.suspicions == 0
    rig.box.resistance_ohm = WEAK_OHM
    rig.tick(2)
    assert rig.suspicions == 1


@pytest.mark.parametrize(
    ("kind", "severity", "asks"),
    [
        (EventKind.XID, Severity.WARNING, 1),
        (EventKind.XID, Severity.INFO, 0),
        (EventKind.COLLECTOR, Severity.WARNING, 0),
    ],
)
def test_an_event_that_warns_asks_for_a_closer_look_whichever_process_reports_it(
    rig: Rig, kind: EventKind, severity: Severity, asks: int
) -> None:
    rig.tick(40)
    event = event_of(kind=kind, severity=severity, code=None)
    rig.guard.add_event(replace(event, id="own"))
    rig.tick()
    assert rig.suspicions == asks
    journal = RecordJournalWriter(rig.folder / "slow.jsonl")
    journal.append(replace(event, id="of the slow process", time_ns=rig.clock.utc_ns()))
    journal.close()
    rig.tick(25)  # its journal is looked at once a second
    assert rig.suspicions == 2 * asks
