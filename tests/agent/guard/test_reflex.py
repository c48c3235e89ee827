"""The reflex with a real actuator behind its socket: ready before the sag, out with its row, gone after the rules."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.guard.foresight import is_reflex, sag_of
from agent.guard.reflex import (
    AFTER_WRONG_S,
    CONFIRM_WITHIN_S,
    PREPARE_AGAIN_S,
    PREPARE_EVERY_S,
    READY_FOR_S,
    WRONG_MAX,
    voltages_of,
)
from analytics.detectors.supply_limits import RailSagLimits
from rules.engine.engine import Engine
from telemetry.entities import NOMINAL_TAG, EntityKind
from telemetry.frames import TableSpec
from telemetry.gpu import KnobKind
from telemetry.records import REFLEX, ActionState, Mode
from tests.agent.fakes import START_NS
from tests.agent.guard.box import GPUS, SUPPLIES, WEAK_OHM, make_pipeline
from tests.agent.guard.rig import Rig
from tests.waiting import wait_for

NAMES = {supply.id for supply in SUPPLIES}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, has_reflex=True)
    yield made
    made.close()


def look(rig: Rig) -> None:
    """Publish the newest row of the rails as the sampler's thread does."""
    assert rig.reflex is not None
    rig.reflex.look("supply", rig.ring.tables["supply"].newest())


def fire(rig: Rig) -> None:
    """Make the rail sag; the guard has not read it yet."""
    rig.tick(40)
    rig.box.resistance_ohm = WEAK_OHM
    rig.row()
    look(rig)
    assert rig.reflex is not None
    assert rig.reflex.fired == 1
    wait_for(lambda: len(rig.capped()) == 1 and rig.capped() != {1530.0})
    wait_for(lambda: rig.states().count(ActionState.APPLIED) == len(GPUS), "the caps in the journal")


def fire_unseen(rig: Rig) -> None:
    """Pass a row of the rails that the ring does not hold, so that the rules never see it."""
    rig.tick(40)
    row = memoryview(bytearray(rig.ring.tables["supply"].newest())).cast("d")
    row[0] = 11.0
    assert rig.reflex is not None
    rig.reflex.look("supply", row)
    wait_for(lambda: len(rig.capped()) == 1 and rig.capped() != {1530.0})


def settled(rig: Rig) -> bool:
    assert rig.reflex is not None
    rig.guard.step()
    return not rig.reflex.out


def test_while_the_rails_are_healthy_an_answer_is_ready_for_each_supply(rig: Rig) -> None:
    rig.tick(40)
    assert rig.reflex is not None
    assert set(rig.reflex.ready) == NAMES
    assert all(answer.gpus == {gpu.id for gpu in GPUS} for answer in rig.reflex.ready.values())
    assert rig.journal() == []
    assert rig.pipeline.engine.claims == ()
    assert rig.pipeline.incidents == ()


def test_the_row_that_falls_below_the_limit_caps_every_gpu_before_the_guard_has_seen_it(rig: Rig) -> None:
    fire(rig)
    assert {action.entity_id for action in rig.journal()} == {gpu.id for gpu in GPUS}
    assert all(is_reflex(action.incident_id) for action in rig.journal())
    assert all(action.reason.startswith("reflex of supply-sag-clock-cap for ") for action in rig.journal())
    assert {action.ahead_of for action in rig.journal()} == {"supply-sag-clock-cap"}
    assert rig.pipeline.incidents == ()


def test_it_goes_once_the_rules_own_cap_stands_and_a_cap_holds_all_the_while(rig: Rig) -> None:
    fire(rig)
    rig.guard.step()
    wait_for(lambda: settled(rig))
    claim = rig.pipeline.engine.claims[0]
    assert rig.capped() == {claim.strictest}
    assert {action.incident_id for action in rig.client.in_force()} == {claim.incident_id}
    assert rig.reflex is not None
    assert (rig.reflex.fired, rig.reflex.unconfirmed) == (1, 0)
    gone = [one for one in rig.journal() if is_reflex(one.incident_id) and one.state is ActionState.RELEASED]
    assert {one.reason.partition(" for ")[0] for one in gone} == {"reflex of supply-sag-clock-cap"}
    assert all(clock is not None and clock < 1530.0 for _, clock in rig.knob.writes)
    assert rig.guard.failures == 0


def test_two_supplies_of_the_same_gpus_that_sag_together_are_answered_once(rig: Rig) -> None:
    fire(rig)
    look(rig)
    assert len({action.incident_id for action in rig.journal()}) == 1


def test_one_that_the_rules_do_not_confirm_lets_go_is_counted_and_is_not_repeated_at_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    fire_unseen(rig)
    assert rig.reflex is not None
    rig.tick(4)
    assert rig.capped() != {1530.0}
    rig.clock.advance(CONFIRM_WITHIN_S)
    wait_for(lambda: settled(rig))
    assert rig.capped() == {1530.0}
    assert rig.reflex.unconfirmed == 1
    assert "not confirmed" in caplog.text
    rig.tick(round(20 * 2 * PREPARE_EVERY_S))
    assert set(rig.reflex.ready) == NAMES - {SUPPLIES[0].id}
    rig.clock.advance(AFTER_WRONG_S)
    rig.tick(40)
    assert set(rig.reflex.ready) == NAMES


def test_a_supply_whose_reflexes_are_wrong_again_and_again_has_none_for_an_hour(rig: Rig) -> None:
    assert rig.reflex is not None
    for _ in range(WRONG_MAX):
        rig.clock.advance(AFTER_WRONG_S)
        fire_unseen(rig)
        rig.clock.advance(CONFIRM_WITHIN_S)
        wait_for(lambda: settled(rig))
    rig.clock.advance(10 * AFTER_WRONG_S)
    rig.tick(40)
    assert rig.reflex.unconfirmed == WRONG_MAX
    assert set(rig.reflex.ready) == NAMES - {SUPPLIES[0].id}


@pytest.mark.parametrize(
    ("mode", "kind", "state"),
    [
        (Mode.RECOMMEND, KnobKind.CLOCK, ActionState.APPLIED),
        (Mode.ENFORCE, KnobKind.FAN, ActionState.APPLIED),
        (Mode.ENFORCE, KnobKind.CLOCK, ActionState.RENEWED),
        (Mode.ENFORCE, KnobKind.CLOCK, ActionState.REFUSED),
    ],
)
def test_only_a_cap_that_the_rules_have_just_set_confirms_it(
    rig: Rig, mode: Mode, kind: KnobKind, state: ActionState
) -> None:
    fire_unseen(rig)
    assert rig.reflex is not None
    caps = [action for action in rig.journal() if action.state is ActionState.APPLIED]
    assert {(action.entity_id, action.unit) for action in caps} == {(gpu.id, "MHz") for gpu in GPUS}
    rig.reflex.settle([replace(action, mode=mode, knob_kind=kind, state=state) for action in caps])
    rig.clock.advance(CONFIRM_WITHIN_S)
    rig.reflex.settle(())
    assert rig.reflex.unconfirmed == 1


def test_the_rules_confirm_it_where_they_answered_for_every_gpu_though_one_of_them_cannot_be_capped(rig: Rig) -> None:
    fire_unseen(rig)
    assert rig.reflex is not None
    lost, *others = (action for action in rig.journal() if action.state is ActionState.APPLIED)
    rig.reflex.settle(others)
    rig.reflex.settle([replace(lost, state=ActionState.REFUSED)])
    wait_for(lambda: settled(rig))
    assert rig.reflex.unconfirmed == 0


def test_while_one_is_out_no_other_goes_out_beside_it(rig: Rig) -> None:
    fire(rig)
    assert rig.reflex is not None
    assert rig.reflex.ready == {}
    rig.clock.advance(PREPARE_EVERY_S)
    rig.reflex.prepare(lambda _: pytest.fail("the rules do not know of the one that is out"), rig.clock.utc_ns())
    assert rig.reflex.ready == {}


def test_what_is_ready_goes_out_of_use_with_a_guard_that_hangs(rig: Rig) -> None:
    rig.tick(40)
    rig.clock.advance(READY_FOR_S)
    rig.box.resistance_ohm = WEAK_OHM
    rig.row()
    look(rig)
    assert rig.reflex is not None
    assert rig.reflex.fired == 0
    assert rig.capped() == {1530.0}


def test_one_that_is_out_lets_go_though_each_step_of_the_guard_fails(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    fire(rig)

    def fail(*_: object) -> None:
        raise RuntimeError("a detector that always fails")

    monkeypatch.setattr(rig.pipeline, "step", fail)
    rig.clock.advance(CONFIRM_WITHIN_S)
    stop = threading.Event()
    thread = threading.Thread(target=rig.guard.run, args=(stop,))
    thread.start()
    try:
        rig.guard.wake()
        wait_for(lambda: rig.capped() == {1530.0})
    finally:
        stop.set()
        rig.guard.wake()
        thread.join()


def test_after_news_the_rules_are_asked_again_soon(rig: Rig) -> None:
    rig.tick(40)
    rig.clock.advance(PREPARE_EVERY_S)
    rig.tick(1)
    assert rig.reflex is not None
    rig.reflex.forget()
    assert rig.reflex.ready == {}
    rig.clock.advance(PREPARE_AGAIN_S)
    rig.tick(1)
    assert set(rig.reflex.ready) == NAMES


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.RECOMMEND])
def test_nothing_is_ready_where_nothing_is_enforced(rig: Rig, mode: Mode) -> None:
    rig.start_guard(make_pipeline(mode))
    rig.tick(40)
    rig.box.resistance_ohm = WEAK_OHM
    rig.row()
    look(rig)
    assert rig.reflex is not None
    assert (rig.reflex.ready, rig.reflex.fired) == ({}, 0)


def test_nothing_is_ready_while_the_breaker_is_tripped(rig: Rig) -> None:
    rig.tick(40)
    rig.pipeline.engine.trip("a person wants to look first", now_ns=rig.clock.utc_ns())
    rig.clock.advance(PREPARE_EVERY_S)
    rig.tick(1)
    assert rig.reflex is not None
    assert rig.reflex.ready == {}


def test_no_reflex_is_ready_against_an_operator_command(rig: Rig) -> None:
    fire(rig)
    rig.guard.step()
    wait_for(lambda: settled(rig))
    rig.client.release_all(reason="leave it alone")
    rig.clock.advance(PREPARE_EVERY_S)
    rig.tick(40)
    assert rig.capped() == {1530.0}
    assert rig.reflex is not None
    assert rig.reflex.ready == {}
    look(rig)
    assert rig.reflex.fired == 1


@pytest.mark.parametrize("volts", [float("nan"), 11.36, 5.9])
def test_what_is_absent_high_or_no_reading_of_a_rail_is_not_answered(rig: Rig, volts: float) -> None:
    rig.tick(40)
    assert rig.reflex is not None
    row = memoryview(bytearray(rig.ring.tables["supply"].newest())).cast("d")
    row[0] = row[2] = volts
    rig.reflex.look("supply", row)
    assert rig.reflex.fired == 0


@pytest.mark.parametrize(("nominal_v", "volts", "low"), [("12", 11.3, True), ("54", 51.2, False), ("54", 51.0, True)])
def test_a_rail_is_low_below_the_share_of_its_own_nominal_voltage(nominal_v: str, volts: float, *, low: bool) -> None:
    rails = tuple(replace(supply, tags=((NOMINAL_TAG, nominal_v),)) for supply in SUPPLIES)
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=rails, signals=("voltage_v", "current_a"))
    ((cell, supply_id, least_v, below_v), *_) = voltages_of(spec, RailSagLimits().at_once_below_v)
    assert (cell, supply_id) == (0, rails[0].id)
    assert (least_v < volts < below_v) is low


def test_an_actuator_that_is_away_leaves_the_sag_to_the_ordinary_way(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.tick(40)
    rig.stop_actuator()
    rig.box.resistance_ohm = WEAK_OHM
    rig.row()
    look(rig)
    rig.start_actuator()
    rig.tick(20)
    assert rig.capped() == {rig.pipeline.engine.claims[0].strictest}
    assert rig.reflex is not None
    assert (rig.reflex.fired, rig.reflex.unsent) == (0, len(NAMES))
    assert caplog.text.count("cannot send a reflex") == 1
    wait_for(lambda: settled(rig))
    assert {action.incident_id for action in rig.client.in_force()} == {rig.incident_id}


def test_a_guard_that_died_after_its_reflex_leaves_no_cap_behind(rig: Rig) -> None:
    fire(rig)
    rig.line.close()
    rig.box.resistance_ohm = 0.0065
    rig.start_guard()  # the row that fired was never judged by a guard

    def gone() -> bool:
        rig.clock.advance(PREPARE_EVERY_S)
        rig.guard.step()
        return not any(action.incident_id.startswith(REFLEX) for action in rig.client.in_force())

    wait_for(gone)
    assert [state for state in rig.states() if state is ActionState.RELEASED]


def test_a_sag_beside_one_that_lasts_is_foreseen_as_part_of_its_incident() -> None:
    limits = RailSagLimits()
    first = sag_of(SUPPLIES[0].id, (), limits, START_NS)
    beside = sag_of(SUPPLIES[1].id, (replace(first, id="i1"),), limits, START_NS + 1)
    assert (beside.id, beside.affected) == ("i1", tuple(sorted(NAMES)))
    assert {one.entity_id for one in beside.findings} == NAMES
    own = replace(first, id="i2", entity_id=SUPPLIES[1].id, affected=(SUPPLIES[1].id,))
    assert sag_of(SUPPLIES[1].id, (replace(first, id="i1"), own), limits, START_NS + 1).id == "i2"


def test_what_is_foreseen_leaves_no_trace_in_the_rules(rig: Rig) -> None:
    rig.tick(40)
    engine: Engine = rig.pipeline.engine
    before = engine.snapshot()
    assert set(rig.pipeline.foresee_sags(sorted(NAMES), rig.clock.utc_ns())) == NAMES
    assert engine.snapshot() == before
