import pytest

from railwatch.evaluation.ageing import AgedNode, AgeingResult, age, scenarios_of, smaller
from railwatch.evaluation.supply import ageing_rows
from railwatch.evaluation.supply_plan import AgeingPlan, NodesPlan, SensorChain, load_supply

PLAN = load_supply().ageing


def short() -> AgeingPlan:
    one = NodesPlan(scenario="healthy", nodes=1)
    return PLAN.model_copy(
        update={"days": 3, "faulty": one.model_copy(update={"scenario": "torque-loss"}), "quiet": (one,)}
    )


@pytest.mark.parametrize("chain", list(SensorChain))
def test_three_days_of_two_nodes_go_from_the_fleet_through_the_sensors_to_the_book(chain: SensorChain) -> None:
    shares: list[float] = []
    result = age(short(), chain, done=shares.append)
    assert result.quiet_months == {"healthy": pytest.approx(0.1)}
    assert result.false_alarms == {"healthy": 0}
    assert [node.drop_day for node in result.aged] == [None]
    assert 0.9 < shares[-1] <= 1.0


def test_a_plain_run_ages_fewer_nodes_for_as_long() -> None:
    less = smaller(PLAN)
    assert less.days == PLAN.days
    assert less.faulty.nodes == 6
    assert len(scenarios_of(less)) < len(scenarios_of(PLAN))
    assert set(scenarios_of(less)) == set(scenarios_of(PLAN))


def test_a_joint_that_is_found_after_the_drop_is_not_found_in_time() -> None:
    node = AgedNode(found_day=20.0, rise=0.12, hazard_day=60.0, drop_day=70.0)
    assert node.in_time
    assert not AgedNode(found_day=71.0, rise=1.2, hazard_day=60.0, drop_day=70.0).in_time
    assert not AgedNode(found_day=None, rise=None, hazard_day=60.0, drop_day=70.0).in_time
    result = AgeingResult(
        chain=SensorChain.SHUNT_MONITOR,
        aged=(node, node),
        false_alarms={"healthy": 0, "marginal-stable": 1},
        quiet_months={"healthy": 150.0, "marginal-stable": 150.0},
    )
    rows = {row.name: row for row in ageing_rows(SensorChain.SHUNT_MONITOR, [result], PLAN)}
    assert rows["joint ageing found before the drop, shunt monitor"].value == 1.0
    assert rows["lead before 1 % a day, shunt monitor"].value == 40.0
    assert not rows["false alarms per node-month, healthy, shunt monitor"].missed
    assert rows["false alarms per node-month, marginal-stable, shunt monitor"].missed
