"""A node without baselines, whose owner configured that its path may be weak: it starts under the ramp, once."""

from dataclasses import replace

import pytest

from physics.node_state import MeasuredNode, MeasuredSupply
from rules.caps.start_ramp import FIRST_START, GIVE_UP_AFTER_S
from rules.engine.engine import Engine
from rules.limits.node import NodeLimits, UnmeasuredStart
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass
from telemetry.records import ActionState, Cause, Mode, Verdict
from tests.rules.scenes import ENFORCED, GPUS, action, incident, node, seconds, topology

REPORTED = replace(ENFORCED, unmeasured_start=UnmeasuredStart.RAMP)
PSU = "supply:psu0"
IDLE = MeasuredSupply(entity_id=PSU, minimum_v=12.1)
STEPPING = MeasuredSupply(
    entity_id=PSU,
    minimum_v=11.6,
    open_circuit_v=12.3,
    source_resistance_ohm=0.006,
    current_high_a=100.0,
    current_low_a=60.0,
)
# Fans and processors alone: the current moves enough to be measured, and is no evidence of what a job will draw.
MURMURING = replace(STEPPING, current_low_a=95.0)
TOO_SLOW = MeasuredSupply(entity_id=PSU)


def _engine(limits: NodeLimits = REPORTED) -> Engine:
    return Engine(load_builtin_policies(), limits=limits, topology=topology())


def _clocks(engine: Engine) -> set[float]:
    return {setting for claim in engine.claims for _, setting in claim.settings}


def test_the_ramp_stands_before_the_first_job_and_goes_up_once_the_path_is_measured() -> None:
    engine = _engine()
    assert engine.busy
    (first,) = engine.step([], node(IDLE), 0)
    assert (first.rule, first.targets, first.clock_mhz) == ("weak-supply-start-ramp", GPUS, 915.0)
    assert first.lease_s == 120.0
    assert "not yet measured under load" in first.reason
    for at_s in (60, 3600, 7200):  # an idle node waits as long as it is idle
        assert engine.step([], node(MURMURING if at_s == 3600 else IDLE), seconds(at_s)) == ()
    assert _clocks(engine) == {915.0}
    output = [one for at_s in range(7201, 7260) for one in engine.step([], node(STEPPING), seconds(at_s))]
    assert {one.action for one in output[:-1]} == {"clock_relax"}
    assert output[-1].action == "clock_release"
    clocks = [one.clock_mhz or 1530.0 for one in output]
    assert clocks == sorted(clocks)
    assert engine.claims == ()
    assert not engine.busy


def test_it_happens_once_also_after_a_restart() -> None:
    engine = _engine()
    for at_s in range(80):
        engine.step([], node(IDLE if at_s < 5 else STEPPING), seconds(at_s))
    again = _engine()
    again.restore(engine.snapshot())
    assert not again.busy
    assert again.step([], node(IDLE), seconds(90)) == ()
    amid = _engine()
    amid.step([], node(IDLE), 0)
    restored = _engine()
    restored.restore(amid.snapshot())
    assert _clocks(restored) == {915.0}
    assert restored.step([], node(IDLE), seconds(5)) == ()


def test_a_supply_that_is_read_too_seldom_is_not_waited_for() -> None:
    engine = _engine()
    engine.step([], node(TOO_SLOW), 0)
    assert engine.step([], node(TOO_SLOW), seconds(GIVE_UP_AFTER_S - 1)) == ()
    for at_s in range(int(GIVE_UP_AFTER_S), int(GIVE_UP_AFTER_S) + 60):
        engine.step([], node(TOO_SLOW), seconds(at_s))
    assert engine.claims == ()


@pytest.mark.parametrize("blind", [node(TOO_SLOW), node()])
def test_a_supply_that_showed_itself_once_is_waited_for_while_its_sensor_is_silent(blind: MeasuredNode) -> None:
    engine = _engine()
    engine.step([], node(IDLE), 0)
    for at_s in (3600, 3660):
        assert engine.step([], blind, seconds(at_s)) == ()
    again = _engine()
    again.restore(engine.snapshot())
    for at_s in (7200, 7260):
        assert again.step([], blind, seconds(at_s)) == ()
    assert _clocks(again) == {915.0}


def test_a_restart_and_a_clock_set_back_begin_the_wait_for_a_first_value_again() -> None:
    engine = _engine()
    assert engine.step([], node(), seconds(900)) == ()
    engine.step([], node(TOO_SLOW), seconds(1000))
    assert engine.step([], node(TOO_SLOW), seconds(1001)) == ()
    again = _engine()
    again.restore(engine.snapshot())
    assert again.step([], node(TOO_SLOW), seconds(1100)) == ()
    assert again.step([], node(TOO_SLOW), seconds(500)) == ()
    assert _clocks(again) == {915.0}
    for at_s in range(510, 570):
        again.step([], node(TOO_SLOW), seconds(at_s))
    assert again.claims == ()


def test_once_unmeasured_start_is_full_again_the_cap_is_released() -> None:
    engine = _engine()
    engine.step([], node(IDLE), 0)
    engine.limits = ENFORCED
    for at_s in range(1, 60):
        engine.step([], node(IDLE), seconds(at_s))
    assert engine.claims == ()
    assert not engine.busy


def test_gpus_at_work_on_a_path_that_is_measured_are_not_slowed_down() -> None:
    engine = _engine()
    assert engine.step([], node(STEPPING), 0) == ()
    assert not engine.busy


def test_one_supply_of_two_that_was_not_measured_keeps_it() -> None:
    engine = _engine()
    other = replace(IDLE, entity_id="supply:psu1")
    engine.step([], node(STEPPING, other), 0)
    assert engine.step([], node(STEPPING, other), seconds(30)) == ()
    assert _clocks(engine) == {915.0}


def test_without_unmeasured_start_or_a_supply_nothing_is_slowed_down() -> None:
    quiet = _engine(ENFORCED)
    assert not quiet.busy
    assert quiet.step([], node(IDLE), 0) == ()
    assert _engine().step([], node(), 0) == ()


def test_where_nothing_is_enforced_it_is_reported_and_not_done() -> None:
    engine = _engine(replace(REPORTED, modes=dict.fromkeys(ActionClass, Mode.RECOMMEND)))
    (reported,) = engine.step([], node(IDLE), 0)
    assert reported.verdict is Verdict.RECOMMEND
    assert engine.claims == ()
    for at_s in range(1, 60):
        assert engine.step([], node(STEPPING), seconds(at_s)) == ()
    assert not engine.busy


@pytest.mark.parametrize("at_s", [0.0, 5.0])
def test_a_sag_under_it_gets_its_own_cap(at_s: float) -> None:
    engine = _engine()
    engine.step([], node(IDLE), 0)
    numbers = {"limit_v": 11.40, "minimum_v": 11.2, "open_circuit_v": 12.3, "source_resistance_ohm": 0.0085}
    sag = incident(Cause.SUPPLY_SAG, at_s=at_s, numbers={**numbers, "current_high_a": 152.0, "current_low_a": 80.0})
    output = engine.step([sag], node(IDLE), seconds(at_s))
    (cap,) = (one for one in output if one.rule == "supply-sag-clock-cap")
    assert cap.clock_mhz is not None
    assert cap.clock_mhz < 915.0


def test_what_a_person_took_back_stays_away() -> None:
    engine = _engine()
    (first,) = engine.step([], node(IDLE), 0)
    engine.bar(FIRST_START, who="ana")
    for gpu in GPUS:
        engine.note_action(action(first, gpu, ActionState.RELEASED, at_s=1))
    assert engine.claims == ()
    (refusal,) = engine.step([], node(IDLE), seconds(200))
    assert refusal.verdict is Verdict.REFUSE
    assert "ana" in refusal.reason
