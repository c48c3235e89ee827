"""Requests that the actuator refuses from anyone, and failures that keep nothing else capped."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings, UnreadableClocks
from telemetry.errors import DeviceLostError
from telemetry.records import ActionState, Mode
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap, only
from tests.agent.fakes import FakeKnob


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def at_most(mode: Mode) -> ActuatorSettings:
    """Settings under which no knob may go further."""
    return ActuatorSettings(knobs={kind: replace(limits, highest_mode=mode) for kind, limits in DEFAULT_LIMITS.items()})


def blind(folder: Path) -> Rig:
    """A rig whose knob no getter shows, and that may move it all the same."""
    knob = FakeKnob(readable=False, name="locked_clock")
    return Rig(folder, knob=knob, settings=ActuatorSettings(unreadable=UnreadableClocks.ALLOW))


def test_a_knob_that_no_getter_shows_is_refused_unless_the_configuration_states_otherwise(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=FakeKnob(readable=False, name="locked_clock"))
    action = only(rig.actuator.apply(cap()))
    assert action.state is ActionState.REFUSED
    assert "actions.unreadable_clocks" in action.reason
    assert only(rig.actuator.apply(cap(mode=Mode.OBSERVE))).state is ActionState.APPLIED
    assert rig.knob.writes == []


def test_a_knob_that_no_getter_shows_is_written_again_at_each_renewal(tmp_path: Path) -> None:
    rig = blind(tmp_path)
    rig.actuator.apply(cap())
    rig.knob.settings[UUID] = 1530.0  # the driver was loaded again and forgot it
    assert only(rig.actuator.renew("i-1", lease_s=120.0)).state is ActionState.RENEWED
    assert rig.in_force == 1057.0


def test_a_knob_that_can_be_read_is_not_written_at_a_renewal(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.actuator.renew("i-1", lease_s=120.0)
    assert len(rig.knob.writes) == 1


def test_nothing_is_enforced_above_the_mode_of_the_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path, settings=at_most(Mode.OBSERVE))
    action = only(rig.actuator.apply(cap()))
    assert (action.state, rig.knob.writes) == (ActionState.REFUSED, [])
    assert "actions.clock_cap is observe" in action.reason


def test_a_run_that_may_not_enforce_releases_what_is_still_held(rig: Rig) -> None:
    rig.actuator.apply(cap())
    rig.settings = at_most(Mode.OBSERVE)
    rig.restart(run_id="run-1")
    assert only(rig.recovered).state is ActionState.RELEASED
    assert rig.in_force == 1530.0


@pytest.mark.parametrize("error", [DeviceLostError("GPU is lost"), ValueError("a defect")])
@pytest.mark.parametrize("run_id", ["run-1", "run-2"])
def test_one_gpu_that_is_gone_at_the_start_keeps_no_other_capped(rig: Rig, run_id: str, error: Exception) -> None:
    rig.actuator.apply(cap(gpus=GPUS))
    rig.knob.errors[UUID] = error
    rig.restart(run_id=run_id)
    rig.actuator.release_all(reason="end")
    assert set(rig.knob.settings.values()) == {1530.0, 1057.0}
    assert rig.in_force == 1057.0
    assert rig.actuator.holds_hardware
    del rig.knob.errors[UUID]
    rig.actuator.release_all(reason="end")
    assert rig.in_force == 1530.0
    assert not rig.actuator.holds_hardware


def test_a_knob_that_no_getter_shows_is_unset_in_the_end(tmp_path: Path) -> None:
    rig = blind(tmp_path)
    action = only(rig.actuator.apply(cap()))
    assert (action.state, action.found, action.read_back) == (ActionState.APPLIED, None, None)
    rig.actuator.apply(cap(1005.0, incident="i-2"))
    assert rig.in_force == 1005.0
    rig.actuator.release_all(reason="end")
    assert rig.knob.writes[-1] == (UUID, None)
    assert rig.in_force == 1530.0
