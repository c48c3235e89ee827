"""Requests of the guard to the actuator: late ones, those that were overtaken, and what an earlier agent left."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.guard.actuator_requests import ORPHAN_S, ActuatorRequests
from telemetry.records import ActionState
from tests.agent.actuation.rig import UUID, cap
from tests.agent.fakes import FakeClock
from tests.agent.guard.box import make_pipeline
from tests.agent.guard.deaf_actuator import decided
from tests.agent.guard.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def test_what_an_agent_before_left_is_kept_for_a_while_and_then_released_unless_the_rules_want_it(rig: Rig) -> None:
    rig.client.apply(replace(cap(1057.0, incident="of the agent before"), owner="railwatch"))
    rig.client.apply(replace(cap(1005.0, incident="of somebody else"), owner="a fleet"))
    pipeline, clock = make_pipeline(), FakeClock()
    orders = ActuatorRequests(rig.client, pipeline.engine, clock)
    assert orders.renew() == ()
    clock.advance(ORPHAN_S - 1.0)
    assert orders.renew() == ()
    clock.advance(2.0)
    (action,) = orders.renew()
    assert (action.incident_id, action.state) == ("of the agent before", ActionState.RELEASED)
    assert rig.knob.settings[UUID] == 1005.0
    assert orders.renew() == ()


def test_a_decision_that_was_overtaken_is_not_stated_late() -> None:
    orders, actuator, clock, first = decided()
    actuator.deaf = True
    assert orders.carry_out(first) == ()
    memory = orders._engine._memory
    ((key, claim),) = memory.claims.items()
    memory.claims[key] = claim.tightened(502.0, decision_id="newer", now_ns=claim.tightened_ns + 1)
    actuator.deaf = False
    orders.carry_out(replace(first, id="newer", setting=502.0))
    clock.advance(60.0)
    orders.catch_up()
    assert {clock_mhz for _, clock_mhz in actuator.received} == {502.0}
    assert len(actuator.received) == 4


def test_what_is_stated_late_is_what_the_rules_want_by_then() -> None:
    orders, actuator, clock, first = decided()
    actuator.deaf = True
    orders.carry_out(first)
    memory = orders._engine._memory
    ((key, claim),) = memory.claims.items()
    free, *kept = claim.gpus
    memory.claims[key] = claim.tightened(502.0, decision_id="newer", now_ns=claim.tightened_ns + 1).without(free)
    actuator.deaf = False
    clock.advance(60.0)
    orders.catch_up()
    assert sorted(actuator.received, key=str) == sorted([(free, None), *((gpu, 502.0) for gpu in kept)], key=str)


def test_an_actuator_that_stays_away_is_asked_less_and_less_often() -> None:
    orders, actuator, clock, first = decided()
    actuator.deaf = True
    orders.carry_out(first)
    for _ in range(600):
        clock.advance(0.05)
        orders.catch_up()
    assert 6 <= actuator.asked <= 12
