"""Properties of every knob: direction, unit, ids, limits, and that one does not touch another."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.actuation.actuator import CHANGED_BY_OTHERS
from agent.actuation.knob_log import EARLIER_NAME, FILE_NAME
from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings, allowed_setting
from telemetry.errors import ActionRefusedError
from telemetry.gpu import KnobKind
from telemetry.records import ActionState
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap
from tests.agent.fakes import FakeKnob

CLOCK, POWER, FAN = KnobKind
WATTS = tuple(float(limit_w) for limit_w in range(150, 301))
SPEEDS = tuple(percent / 100 for percent in range(30, 101))


def power(found: float | None = 300.0) -> FakeKnob:
    return FakeKnob(kind=POWER, name="power_limit", found=found, supported=WATTS)


def fan(found: float | None = None) -> FakeKnob:
    return FakeKnob(kind=FAN, name="fan_speed", found=found, supported=SPEEDS)


@pytest.mark.parametrize(
    ("kind", "supported", "wanted", "given"),
    [
        (POWER, WATTS, 200.4, 200.0),
        (POWER, WATTS, 20.0, 150.0),
        (POWER, WATTS, 999.0, 300.0),
        (FAN, SPEEDS, 0.901, 0.91),
        (FAN, SPEEDS, 0.40, 0.80),
        (FAN, SPEEDS, 1.5, 1.0),
    ],
)
def test_the_nearest_supported_setting_that_is_no_looser_is_taken_within_the_rail(
    kind: KnobKind, supported: tuple[float, ...], wanted: float, given: float
) -> None:
    assert allowed_setting(kind, supported, wanted, DEFAULT_LIMITS[kind]) == given


def test_nothing_is_allowed_where_the_owners_range_and_the_part_do_not_meet() -> None:
    with pytest.raises(ValueError, match="no supported power limit lies from 400"):
        allowed_setting(POWER, WATTS, 200.0, replace(DEFAULT_LIMITS[POWER], lowest=400.0))


def test_a_faster_fan_is_stricter_and_the_driver_has_it_back_in_the_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=fan())
    (action,) = rig.actuator.apply(cap(0.85, kind=FAN))
    assert (action.unit, action.wanted, action.found, rig.in_force) == ("ratio", 0.85, None, 0.85)
    rig.actuator.apply(cap(0.95, kind=FAN, incident="i-2"))
    assert rig.in_force == 0.95
    (relaxed,) = rig.actuator.apply(cap(0.9, kind=FAN, incident="i-2"))
    assert (relaxed.state, rig.in_force) == (ActionState.RELAXED, 0.9)
    rig.actuator.release_all(reason="end")
    assert rig.knob.writes[-1] == (UUID, None)


def test_a_fan_whose_claim_is_not_renewed_turns_at_its_fastest(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=fan())
    rig.actuator.apply(cap(0.85, kind=FAN, lease_s=60.0))
    rig.clock.advance(60.0)
    (action,) = rig.actuator.tick()
    assert (action.state, rig.in_force) == (ActionState.EXPIRED, 1.0)
    assert action.reason.endswith("safe fan speed")


def test_a_fan_that_a_person_set_faster_stays_so(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=fan(found=0.97))
    rig.actuator.apply(cap(0.9, kind=FAN))
    assert rig.knob.writes == []


def test_fans_that_are_no_one_setting_are_refused_and_let_go_of(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=fan())
    rig.actuator.apply(cap(0.9, kind=FAN))
    rig.knob.read_error = ActionRefusedError("the fans are set to different speeds")
    (action,) = rig.actuator.renew("i-1", lease_s=60.0)
    assert (action.state, action.reason) == (ActionState.RELEASED, CHANGED_BY_OTHERS)
    (refused,) = rig.actuator.apply(cap(0.9, kind=FAN, incident="i-2"))
    assert (refused.state, "different speeds" in refused.reason) == (ActionState.REFUSED, True)
    assert rig.knob.writes == [(UUID, 0.9)]


def test_a_write_of_ours_that_was_cut_short_between_two_fans_is_done_again_and_not_taken_for_a_persons(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, knob=fan())
    rig.actuator.apply(cap(0.9, kind=FAN))
    lines = (tmp_path / FILE_NAME).read_bytes().splitlines(keepends=True)
    rig.journal.close()
    (tmp_path / FILE_NAME).write_bytes(lines[0])  # killed after the journal's line and before the end of the write
    rig.knob.read_error, rig.knob.readable = ActionRefusedError("different speeds"), True
    rig.start()
    assert rig.knob.writes[1:] == [(UUID, 0.9)] * len(rig.knob.writes[1:]) != []
    rig.knob.read_error = None
    rig.restart(run_id="the next run")
    assert rig.knob.writes[-1] == (UUID, None)


def test_one_incident_may_hold_several_knobs_and_let_go_of_one(tmp_path: Path) -> None:
    rig = Rig(tmp_path, others=(power(),))
    limits = rig.others[0].settings
    rig.actuator.apply(cap())
    (action,) = rig.actuator.apply(cap(200.0, kind=POWER))
    assert (action.id, action.unit) == (f"power_cap:i-1:{UUID}", "W")
    assert (rig.in_force, limits[UUID]) == (1057.0, 200.0)
    assert len(rig.actuator.renew("i-1", lease_s=60.0)) == 2
    rig.actuator.release("i-1", entity_id=GPUS[0].entity_id, reason="enough", kind=CLOCK)
    assert (rig.in_force, limits[UUID]) == (1530.0, 200.0)
    rig.restart(run_id="the next run")
    assert limits[UUID] == 300.0


def test_a_limit_that_a_person_set_above_the_default_is_put_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, knob=power(found=320.0))
    rig.actuator.apply(cap(250.0, kind=POWER))
    rig.actuator.release_all(reason="end")
    assert rig.in_force == 320.0


def test_a_kind_that_the_machine_does_not_have_and_one_that_is_not_allowed_are_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path, others=(power(),), settings=ActuatorSettings(knobs={CLOCK: DEFAULT_LIMITS[CLOCK]}))
    (absent,) = rig.actuator.apply(cap(0.9, kind=FAN))
    (barred,) = rig.actuator.apply(cap(200.0, kind=POWER))
    assert (absent.state, absent.reason) == (ActionState.REFUSED, "no GPU here has a fan speed that can be set")
    assert (barred.state, barred.reason) == (ActionState.REFUSED, "no power limit may be set here")


def test_a_renewal_returns_no_longer_lease_than_is_allowed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, settings=ActuatorSettings(longest_lease_s=60.0))
    rig.actuator.apply(cap(lease_s=60.0))
    (action,) = rig.actuator.renew("i-1", lease_s=86_400.0)
    assert action.lease_until_ns == rig.clock.utc_ns() + 60 * 10**9


def test_a_journal_from_before_there_were_other_knobs_is_understood(tmp_path: Path) -> None:
    claim = {
        "incident_id": "i-1", "decision_id": "d", "clock_mhz": 1057.0, "safe_clock_mhz": 1005.0, "lease_s": 120.0,
        "lease_until_ns": None, "owner": "railwatch", "mode": "enforce", "reason": "the rail sags",
    }  # fmt: skip
    line = {
        "run_id": "run-0", "entity_id": GPUS[0].entity_id, "uuid": UUID, "knob": "application_clock", "found": 1530.0,
        "before": 1530.0, "wanted": 1057.0, "read_back": 1057.0, "settled": True, "owed": False, "lost": False,
        "claims": [claim], "subject": claim,
    }  # fmt: skip
    (tmp_path / EARLIER_NAME).write_text(json.dumps(line) + "\n")
    knob = FakeKnob()
    knob.settings[UUID] = 1057.0
    rig = Rig(tmp_path, knob=knob)
    assert [action.state for action in rig.recovered] == [ActionState.RELEASED]
    assert rig.in_force == 1530.0
    assert not (tmp_path / EARLIER_NAME).exists()


def test_a_look_back_reports_a_knob_that_stands_elsewhere_and_writes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, others=(power(),))
    rig.actuator.apply(cap(gpus=GPUS[:2]))
    rig.actuator.apply(cap(200.0, kind=POWER))
    assert [check.agrees for check in rig.actuator.verify()] == [True] * 3
    rig.knob.settings[UUID] = 1380.0
    writes = len(rig.knob.writes)
    differs = [check for check in rig.actuator.verify() if not check.agrees]
    assert [(check.entity_id, check.in_force, check.expected) for check in differs] == [
        (GPUS[0].entity_id, 1380.0, 1057.0)
    ]
    assert differs[0].summary == "1380 MHz, expected 1057 MHz"
    assert len(rig.knob.writes) == writes
