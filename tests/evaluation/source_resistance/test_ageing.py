from dataclasses import replace

import numpy as np
import pytest

from evaluation.source_resistance.ageing import AgedNode, AgeingResult, FleetView, age, months, scenarios_of
from evaluation.source_resistance.plan import SUPPLY, AgeingPlan, NodesPlan, SensorChain, SupplyPlan
from evaluation.source_resistance.suite import ageing_rows
from telemetry.documents import load_document

PLAN = load_document(SupplyPlan, SUPPLY).ageing


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


def test_the_quiet_nodes_make_three_hundred_months_of_each_kind_and_thirty_joints_age() -> None:
    assert PLAN.faulty.nodes == 30
    assert [part.nodes * PLAN.days / 30 for part in PLAN.quiet] == [300, 300]
    assert len(scenarios_of(PLAN)) == 180


def test_warm_copper_takes_its_part_of_the_voltage() -> None:
    (stretch, node), *_ = months(short(), ("healthy",))
    view = FleetView.of(SensorChain.SHUNT_MONITOR, node, 1)
    shown = view.frames(stretch)[0].values[:, :, 0]
    truth = stretch.truth
    temperate = replace(truth, inlet_c=np.full_like(truth.inlet_c, 25.0), joint_c=np.full_like(truth.joint_c, 25.0))
    plain = view.frames(replace(stretch, truth=temperate))[0].values[:, :, 0]
    known = np.isfinite(plain)
    assert np.array_equal(plain[known], stretch.samples.rail_voltage_v.reshape(plain.shape)[known])
    hot = replace(temperate, joint_c=np.full_like(truth.joint_c, 35.0))
    lost_v = plain - view.frames(replace(stretch, truth=hot))[0].values[:, :, 0]
    amps = stretch.samples.rail_current_a.reshape(plain.shape)
    # Ten kelvin on 3.4 milliohm, at two thirds of what copper does.
    assert np.nanmedian(lost_v / amps) == pytest.approx(0.0034 * 10 * 0.00393 * 2 / 3, rel=0.02)
    assert np.nanmax(np.abs(shown - plain)) > 0.0


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
