import numpy as np
import pytest

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import Quantity
from simulator.fleet.supplies import Supplies
from simulator.plant.timeline import starting_values
from telemetry.frames import FloatArray

NODE = load_node("v100x4-aged-3psu")
Values = dict[Quantity, FloatArray]
ON = np.array([True])


def supplies_of(node: NodeFile = NODE) -> tuple[Supplies, Values]:
    values = {quantity: values[None].copy() for quantity, values in starting_values(node).items()}
    return Supplies([node], np.random.default_rng(1)), values


def begin(supplies: Supplies, values: Values, *, mains: float = 1.0, powered: bool = True) -> None:
    supplies.begin(values, input_ratio=mains, powered=ON & powered)


def test_a_joint_ages_on_from_where_a_repair_set_it() -> None:
    supplies, values = supplies_of()
    begin(supplies, values)
    first = supplies.joint_mohm.copy()
    for _ in range(30):
        supplies.age(np.full((1, 3), 46.0**2), 86_400.0, np.ones((1, 3)))
        begin(supplies, values)
    assert (supplies.joint_mohm > first).all()
    values[Quantity.JOINT_MOHM][0, 1] = 3.0
    begin(supplies, values)
    assert supplies.joint_mohm[0, 1] == 3.0
    assert supplies.joint_mohm[0, 0] > first[0, 0]


def test_a_joint_that_is_not_aged_keeps_its_resistance() -> None:
    supplies, values = supplies_of()
    begin(supplies, values)
    first = supplies.joint_mohm.copy()
    supplies.age(np.full((1, 3), 60.0**2), 1e8, np.zeros((1, 3)))
    begin(supplies, values)
    np.testing.assert_array_equal(supplies.joint_mohm, first)


def test_a_joint_is_warmer_the_more_it_carries() -> None:
    supplies, values = supplies_of()
    begin(supplies, values)
    supplies.age(np.array([[30.0**2, 60.0**2, 0.0]]), 60.0, np.zeros((1, 3)))
    assert supplies.rise_k[0, 1] == pytest.approx(4.0 * supplies.rise_k[0, 0])
    assert supplies.rise_k[0, 2] == 0.0


def test_a_unit_that_carries_too_much_trips_until_it_is_switched() -> None:
    supplies, values = supplies_of()
    begin(supplies, values)
    assert not supplies.trip(np.array([[80.0, 80.0, 80.0]]))
    assert supplies.trip(np.array([[80.0, 130.0, 80.0]]))  # 1100 W at 12.3 V is 89.4 A, 30 % more is 116 A
    np.testing.assert_array_equal(supplies.on, [[True, False, True]])
    begin(supplies, values)
    assert not supplies.on[0, 1]
    values[Quantity.IN_SERVICE][0, 1] = 0.0
    begin(supplies, values)
    values[Quantity.IN_SERVICE][0, 1] = 1.0
    begin(supplies, values)
    assert supplies.on.all()


def test_mains_sag_and_then_drop_out() -> None:
    supplies, values = supplies_of()
    begin(supplies, values, mains=0.9)
    assert supplies.sources().open_circuit_v[0, 0] == pytest.approx(12.3 - 0.2)
    begin(supplies, values, mains=0.6)
    assert not supplies.on.any()


def test_nodes_with_other_joints_age_by_their_own_law() -> None:
    slow = NODE.supply.ageing.model_copy(update={"rate_per_day": 0.001})
    other = NODE.model_copy(update={"supply": NODE.supply.model_copy(update={"ageing": slow})})
    values = {quantity: np.stack([values, values]) for quantity, values in starting_values(NODE).items()}
    supplies = Supplies([NODE, other], np.random.default_rng(1))
    for _ in range(2):
        supplies.begin(values, input_ratio=1.0, powered=np.array([True, True]))
        supplies.age(np.full((2, 3), 40.0**2), 20.0 * 86_400.0, np.ones((2, 3)))
    assert (supplies.joint_mohm[0] > supplies.joint_mohm[1]).all()
