"""An actuator that is started again: what an earlier run left is released, kept or owed."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings
from telemetry.errors import DeviceLostError, TransientError
from telemetry.gpu import KnobKind, ReleasedBy
from telemetry.records import ActionState
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap, only
from tests.agent.fakes import FakeKnob


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_an_experiment_that_a_restarted_actuator_takes_over_still_ends_with_its_lease(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0, lease_s=10.0, ends_with_lease=True))
    rig.restart(run_id="run-1")
    assert rig.in_force == 1200.0
    rig.clock.advance(10.0)
    rig.actuator.tick()
    assert rig.in_force == 1530.0


@pytest.mark.parametrize("cause", [ReleasedBy.ACTUATOR, ReleasedBy.REQUEST])
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_release_that_is_done_late_is_reported_with_its_cause(rig: Rig, cause: ReleasedBy, restarts: int) -> None:
    rig.actuator.apply(cap())
    rig.knob.errors[UUID] = DeviceLostError("GPU is lost")
    assert only(rig.actuator.release_all(reason="end", by=cause)).state is ActionState.FAILED
    for number in range(restarts):
        rig.restart(run_id=f"run-{number}")
    rig.actuator.release_all(reason="end", by=ReleasedBy.ACTUATOR)  # the cause of what is pending remains
    del rig.knob.errors[UUID]
    rig.clock.advance(30.0)
    action = only(rig.actuator.tick())
    assert (action.state, action.released_by, rig.in_force) == (ActionState.RELEASED, cause, 1530.0)


def test_claims_of_a_dead_run_are_released_by_the_next(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0, incident="heat", gpus=GPUS))
    rig.actuator.apply(cap(1057.0, incident="sag", gpus=GPUS[:2]))
    rig.restart(run_id="run-2")
    assert set(rig.knob.settings.values()) == {1530.0}
    assert {(action.state, action.released_by) for action in rig.recovered} == {
        (ActionState.RELEASED, ReleasedBy.ACTUATOR)
    }
    assert len(rig.recovered) == 6
    rig.restart(run_id="run-3")
    assert not rig.recovered


def test_claims_of_the_same_run_are_taken_over_with_what_is_left_of_their_lease(rig: Rig) -> None:
    rig.actuator.apply(cap(1200.0, lease_s=120.0))
    rig.clock.advance(100.0)
    rig.restart(run_id="run-1")
    assert only(rig.recovered).state is ActionState.RENEWED
    assert rig.in_force == 1200.0
    rig.clock.advance(20.0)
    assert only(rig.actuator.tick()).state is ActionState.EXPIRED
    rig.actuator.release_all(reason="end")
    assert rig.in_force == 1530.0


def test_what_a_person_changed_while_no_actuator_ran_is_left_as_is(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.knob.settings[UUID] = 1380.0
    rig.restart(run_id="run-2")
    assert only(rig.recovered).reason == "changed by someone else; left as is"
    assert rig.in_force == 1380.0


def test_what_an_earlier_run_left_stays_owed_until_a_driver_that_does_not_answer_does(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap(1057.0))
    real, rig.knob = rig.knob, FakeKnob(name="")
    rig.knob.read_error = TransientError("the driver does not open")
    rig.restart(run_id="run-2")
    assert [(one.state, one.reason) for one in rig.recovered] == [(ActionState.FAILED, "the driver does not open")]
    rig.knob = real
    rig.restart(run_id="run-2")
    assert [one.state for one in rig.recovered] == [ActionState.RELEASED]
    assert rig.in_force == 1530.0


def test_what_a_person_sets_on_a_gpu_that_came_back_stays(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=FakeKnob(found=1530.0))
    rig.actuator.apply(cap())
    rig.knob.errors[UUID] = DeviceLostError("lost")
    rig.actuator.renew("i-1", lease_s=60.0)
    rig.knob.errors.clear()
    rig.knob.settings[UUID] = 1005.0
    rig.clock.advance(30.0)
    rig.actuator.tick()
    assert (rig.in_force, rig.reported[-1].reason) == (1005.0, "changed by someone else; left as is")


@pytest.mark.parametrize(
    "settings",
    [
        ActuatorSettings(gpus=frozenset({"another"})),
        ActuatorSettings(longest_lease_s=30.0),
        ActuatorSettings(knobs={KnobKind.CLOCK: replace(DEFAULT_LIMITS[KnobKind.CLOCK], lowest=1200.0)}),
        ActuatorSettings(knobs={KnobKind.CLOCK: replace(DEFAULT_LIMITS[KnobKind.CLOCK], highest=900.0)}),
    ],
)
def test_what_may_not_be_done_any_more_is_given_back_after_a_kill(tmp_path: Path, settings: ActuatorSettings) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap())
    rig.settings = settings
    rig.restart(run_id=rig.run_id)
    assert (rig.in_force, rig.actuator.holds_hardware) == (1530.0, False)
