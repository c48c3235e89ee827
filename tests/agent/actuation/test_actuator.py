"""The actuator with a knob in memory: claims, leases, what a person sets, and failures of driver and disk."""

from pathlib import Path

import pytest

from agent.actuation.limits import CLAIMS_MAX
from telemetry.errors import DeviceLostError, NotPermittedError, NotSupportedError, TransientError
from telemetry.gpu import ReleasedBy
from telemetry.record_journal import RecordJournalReader, RecordJournalWriter
from telemetry.records import Action, ActionState, Mode
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap, only
from tests.agent.fakes import FakeKnob
from tests.telemetry.full_disk import full_disk


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_cap_reports_what_was_found_set_and_read_back(rig: Rig) -> None:
    action = only(rig.actuator.apply(cap(1060.0)))
    assert (action.state, action.found, action.wanted, action.read_back) == (
        ActionState.APPLIED,
        1530.0,
        1057.0,
        1057.0,
    )
    assert (action.entity_id, action.unit, action.knob) == (GPUS[0].entity_id, "MHz", "application_clock")
    assert action.lease_until_ns == rig.clock.utc_ns() + 120 * 10**9
    assert rig.reported == [action]
    assert rig.actuator.in_force() == (action,)


def test_a_release_restores_what_was_found_and_keeps_the_id_of_the_action(rig: Rig) -> None:
    applied = only(rig.actuator.apply(cap()))
    released = only(rig.actuator.release_incident("i-1", reason="the rail is back"))
    assert (released.id, released.state, released.read_back) == (applied.id, ActionState.RELEASED, 1530.0)
    assert (applied.released_by, released.released_by) == (None, ReleasedBy.REQUEST)
    assert rig.in_force == 1530.0
    assert rig.actuator.in_force() == ()
    assert rig.actuator.release_incident("i-1", reason="again") == ()


def test_only_a_difference_is_written(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.actuator.apply(cap())
    rig.actuator.renew("i-1", lease_s=120.0)
    assert rig.knob.writes == [(UUID, 1057.0)]


def test_a_setting_below_the_cap_stays_as_it_was_found(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=FakeKnob(found=1005.0))
    assert only(rig.actuator.apply(cap(1200.0))).wanted == 1005.0
    rig.actuator.release_all(reason="end")
    assert rig.knob.writes == []


def test_all_gpus_of_a_request_are_capped_alike_and_in_order(rig: Rig) -> None:
    actions = rig.actuator.apply(cap(gpus=GPUS))
    assert [action.entity_id for action in actions] == [gpu.entity_id for gpu in GPUS]
    assert set(rig.knob.settings.values()) == {1057.0}
    rig.actuator.release("i-1", entity_id=GPUS[1].entity_id, reason="this one is innocent")
    assert [rig.knob.settings[gpu.uuid] for gpu in GPUS] == [1057.0, 1530.0, 1057.0, 1057.0]


def test_with_two_incidents_on_one_gpu_the_stronger_wins_until_it_leaves(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0, incident="heat"))
    rig.actuator.apply(cap(1057.0, incident="sag"))
    assert rig.in_force == 1057.0
    assert only(rig.actuator.apply(cap(1380.0, incident="weak"))).wanted == 1057.0
    action = only(rig.actuator.release_incident("sag", reason="over"))
    assert (action.wanted, rig.in_force) == (1200.0, 1200.0)
    assert "other claims remain" in action.reason
    rig.actuator.release_incident("weak", reason="over")
    assert rig.in_force == 1200.0
    rig.actuator.release_incident("heat", reason="over")
    assert rig.in_force == 1530.0


def test_an_incident_may_relax_its_own_cap(rig: Rig) -> None:
    rig.actuator.apply(cap(1057.0))
    action = only(rig.actuator.apply(cap(1102.0)))
    assert (action.state, rig.in_force) == (ActionState.RELAXED, 1102.0)


def test_no_cap_goes_below_the_rail_and_the_action_states_so(rig: Rig) -> None:
    action = only(rig.actuator.apply(cap(200.0)))
    assert action.wanted == 802.0
    assert "below the minimum of 40% of the highest clock" in action.reason


def test_a_lease_that_runs_out_falls_to_the_safe_clock_and_never_to_the_highest(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0, lease_s=120.0))
    assert rig.actuator.next_wake_s() == rig.clock.monotonic_s() + 120.0
    rig.clock.advance(119.0)
    assert rig.actuator.tick() == ()
    rig.clock.advance(1.0)
    action = only(rig.actuator.tick())
    assert (action.state, action.wanted, action.lease_until_ns) == (ActionState.EXPIRED, 1005.0, None)
    assert rig.in_force == 1005.0
    rig.clock.advance(1e6)
    assert rig.actuator.tick() == ()
    assert rig.actuator.next_wake_s() is None


def test_the_claim_of_an_experiment_ends_with_its_lease_and_restores_what_was_found(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0, lease_s=10.0, ends_with_lease=True))
    rig.clock.advance(10.0)
    action = only(rig.actuator.tick())
    assert (action.state, action.released_by, rig.in_force) == (ActionState.RELEASED, ReleasedBy.ACTUATOR, 1530.0)
    assert rig.actuator.in_force() == ()


def test_a_renewed_lease_does_not_run_out(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0))
    rig.clock.advance(100.0)
    assert only(rig.actuator.renew("i-1", lease_s=120.0)).state is ActionState.RENEWED
    rig.clock.advance(100.0)
    assert rig.actuator.tick() == ()
    assert rig.actuator.renew("unknown", lease_s=120.0) == ()


def test_a_renewal_after_the_lease_ran_out_goes_back_to_what_was_asked(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0))
    rig.clock.advance(120.0)
    rig.actuator.tick()
    assert only(rig.actuator.renew("i-1", lease_s=120.0)).state is ActionState.RELAXED
    assert rig.in_force == 1200.0


def test_a_step_of_the_wall_clock_ends_no_lease(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.clock.step_utc(86_400.0)
    assert rig.actuator.tick() == ()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.RECOMMEND])
def test_a_dry_run_reports_the_same_and_writes_nothing(rig: Rig, mode: Mode) -> None:
    action = only(rig.actuator.apply(cap(mode=mode)))
    assert (action.state, action.found, action.wanted, action.read_back) == (
        ActionState.APPLIED,
        1530.0,
        1057.0,
        1530.0,
    )
    assert action.reason.startswith("nothing written: ")
    rig.clock.advance(120.0)
    assert only(rig.actuator.tick()).state is ActionState.EXPIRED
    assert only(rig.actuator.release_all(reason="end")).state is ActionState.RELEASED
    assert rig.knob.writes == []
    rig.restart(run_id="run-2")
    assert rig.recovered == ()


def test_an_incident_that_goes_from_enforced_to_recommended_returns_its_cap_back(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.actuator.apply(cap(mode=Mode.RECOMMEND))
    assert rig.in_force == 1530.0
    rig.actuator.apply(cap())
    assert rig.in_force == 1057.0
    assert len(rig.actuator.in_force()) == 1


def test_a_setting_that_a_person_changed_is_left_as_is(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.knob.settings[UUID] = 1380.0
    action = only(rig.actuator.release_incident("i-1", reason="over"))
    assert (action.state, action.reason) == (ActionState.RELEASED, "changed by someone else; left as is")
    assert action.released_by is ReleasedBy.OTHERS
    assert (rig.in_force, action.read_back) == (1380.0, 1380.0)


def test_an_incident_whose_cap_a_person_undid_does_not_cap_again(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.knob.settings[UUID] = 1530.0
    assert only(rig.actuator.renew("i-1", lease_s=120.0)).state is ActionState.RELEASED
    assert only(rig.actuator.apply(cap())).state is ActionState.REFUSED
    assert rig.in_force == 1530.0


def test_a_new_incident_begins_from_what_a_person_set(rig: Rig) -> None:
    rig.actuator.apply(cap(1057.0, incident="old"))
    rig.knob.settings[UUID] = 1380.0
    action = only(rig.actuator.apply(cap(1200.0, incident="new")))
    assert (action.state, action.found, rig.in_force) == (ActionState.APPLIED, 1380.0, 1200.0)
    assert [one.state for one in rig.reported] == [
        ActionState.APPLIED,
        ActionState.RELEASED,
        ActionState.APPLIED,
    ]
    rig.actuator.release_all(reason="end")
    assert rig.in_force == 1380.0


def test_an_incident_that_a_person_released_does_not_cap_again(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.actuator.release_incident("i-1", reason="released by a person", bar=True)
    action = only(rig.actuator.apply(cap()))
    assert (action.state, action.reason, rig.in_force) == (ActionState.REFUSED, "released by a person", 1530.0)
    assert only(rig.actuator.apply(cap(incident="i-2"))).state is ActionState.APPLIED


@pytest.mark.parametrize("error", [NotPermittedError("clocks need root"), NotSupportedError("no such setting")])
def test_a_write_that_is_refused_leaves_no_claim(rig: Rig, error: Exception) -> None:
    rig.knob.write_error = error
    action = only(rig.actuator.apply(cap()))
    assert (action.state, action.reason) == (ActionState.REFUSED, str(error))
    assert rig.actuator.in_force() == ()
    rig.knob.write_error = None
    rig.restart(run_id="run-2")
    assert rig.recovered == ()
    assert rig.knob.writes == []


def test_a_part_that_cannot_be_read_is_refused(rig: Rig) -> None:
    rig.knob.read_error = NotSupportedError("no such setting")
    assert only(rig.actuator.apply(cap())).state is ActionState.REFUSED
    rig.knob.read_error = TransientError("busy")
    assert only(rig.actuator.apply(cap())).state is ActionState.FAILED
    assert rig.actuator.next_wake_s() is None


def test_permission_lost_while_capped_owes_the_restore_until_it_is_back(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0))
    rig.knob.write_error = NotPermittedError("clocks need root")
    assert only(rig.actuator.apply(cap(1057.0))).state is ActionState.REFUSED
    assert rig.in_force == 1200.0
    rig.clock.advance(120.0)
    assert only(rig.actuator.tick()).state is ActionState.FAILED
    assert only(rig.actuator.release_all(reason="end")).state is ActionState.FAILED
    assert len(rig.actuator.in_force()) == 1
    rig.knob.write_error = None
    rig.clock.advance(60.0)
    assert only(rig.actuator.tick()).state is ActionState.RELEASED
    assert rig.in_force == 1530.0


def test_a_driver_that_ignores_a_write_is_found_out_and_tried_again(rig: Rig) -> None:
    rig.knob.obeys = False
    action = only(rig.actuator.apply(cap()))
    assert (action.state, action.read_back) == (ActionState.FAILED, 1530.0)
    assert action.reason == "read back 1530 MHz, wanted 1057 MHz"
    rig.clock.advance(1.0)
    assert rig.actuator.tick() == ()
    rig.knob.obeys = True
    rig.clock.advance(2.0)
    assert only(rig.actuator.tick()).state is ActionState.APPLIED
    assert rig.in_force == 1057.0


def test_tries_of_an_owed_write_grow_rare(rig: Rig) -> None:
    rig.knob.obeys = False
    rig.actuator.apply(cap(lease_s=1e6))
    writes = len(rig.knob.writes)
    for _ in range(600):
        rig.clock.advance(1.0)
        rig.actuator.tick()
    assert len(rig.knob.writes) - writes < 2 * 30


def test_a_gpu_lost_while_capped_is_capped_again_when_it_is_back(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.knob.errors[UUID] = DeviceLostError("GPU is lost")
    assert only(rig.actuator.renew("i-1", lease_s=600.0)).state is ActionState.FAILED
    rig.clock.advance(10.0)
    assert rig.actuator.tick() == ()
    del rig.knob.errors[UUID]
    rig.knob.settings[UUID] = 1530.0  # a reset forgets application clocks
    rig.clock.advance(30.0)
    action = only(rig.actuator.tick())
    assert (action.state, action.found, rig.in_force) == (ActionState.APPLIED, 1530.0, 1057.0)


def test_a_gpu_lost_while_capped_can_be_released_and_is_restored_when_it_is_back(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.knob.errors[UUID] = DeviceLostError("GPU is lost")
    assert only(rig.actuator.release_all(reason="end")).state is ActionState.FAILED
    assert only(rig.actuator.in_force()).state is ActionState.FAILED
    rig.restart(run_id="run-2")
    assert only(rig.recovered).state is ActionState.FAILED
    del rig.knob.errors[UUID]
    rig.clock.advance(30.0)
    assert only(rig.actuator.tick()).state is ActionState.RELEASED
    assert rig.in_force == 1530.0
    rig.restart(run_id="run-3")
    assert rig.recovered == ()


def test_a_lost_gpu_does_not_keep_its_siblings_from_being_capped(rig: Rig) -> None:
    rig.knob.errors[GPUS[1].uuid] = DeviceLostError("GPU is lost")
    states = [action.state for action in rig.actuator.apply(cap(gpus=GPUS))]
    assert states == [ActionState.APPLIED, ActionState.FAILED, ActionState.APPLIED, ActionState.APPLIED]


def test_a_journal_that_cannot_be_written_holds_the_cap_back_but_never_the_restore(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.actuator.apply(cap(1200.0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rig.journal, "append", full)
    action = only(rig.actuator.apply(cap(1057.0)))
    assert (action.state, rig.in_force) == (ActionState.FAILED, 1200.0)
    assert "No space left" in action.reason
    assert only(rig.actuator.release_all(reason="end")).state is ActionState.RELEASED
    assert rig.in_force == 1530.0


def test_on_a_full_disk_no_clock_is_capped_and_followers_of_the_records_receive_that(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "actuator.jsonl"
    records = RecordJournalWriter(path, spill_dir=tmp_path)
    rig.actuator._sink = records.append
    with full_disk():
        rig.actuator.apply(cap(1057.0))
    records.close()
    assert rig.in_force == 1530.0
    (reported,) = RecordJournalReader(path, spill_dir=tmp_path).read()
    assert isinstance(reported, Action)
    assert reported.state is ActionState.FAILED
    assert reported.reason == "cannot write the journal: No space left on device"


def test_a_cap_set_through_another_knob_is_reported_and_not_touched(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.knob.name = "locked_clock"
    rig.restart(run_id="run-2")
    action = only(rig.recovered)
    assert action.state is ActionState.FAILED
    assert "cannot restore 1530 MHz" in action.reason
    assert rig.in_force == 1057.0


class HalfKnob(FakeKnob):
    """Knob that writes, and then reports that it may not: one fan of two."""

    def write(self, uuid: str, setting: float | None) -> None:
        super().write(uuid, setting)
        if setting is not None:
            raise NotPermittedError("the second fan")


def test_a_write_that_was_refused_half_way_is_owed_and_given_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=HalfKnob(found=None))
    (action,) = rig.actuator.apply(cap())
    assert (action.state, rig.in_force) == (ActionState.FAILED, 1057.0)
    rig.actuator.release_incident("i-1", reason="over")
    assert (rig.in_force, rig.actuator.holds_hardware) == (None, False)


def test_so_many_incidents_hold_one_knob_and_no_more(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    states = [rig.actuator.apply(cap(incident=f"i-{number}"))[0].state for number in range(CLAIMS_MAX + 1)]
    assert states == [ActionState.APPLIED] * CLAIMS_MAX + [ActionState.REFUSED]
    assert rig.actuator.apply(cap(900.0, incident="i-0"))[0].state is ActionState.APPLIED
