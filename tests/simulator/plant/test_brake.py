import numpy as np

from simulator.files.node import load_node
from simulator.plant.brake import HOLD_MS, PowerBrake

HAZARD = load_node("v100x4").gpu.hazard
NO = np.zeros(4)
HERE = np.ones(4, dtype=np.bool_)
POWER_W = np.full((10, 4), 350.0)


def braked(voltage_v: float, *, contact_mohm: float = 0.0, then_ms: int = 0) -> list[bool]:
    """Return who is braked after a block at a voltage, and then a while on a good rail."""
    brake = PowerBrake(HAZARD, 4)
    contact = np.array([0.0, contact_mohm, 0.0, 0.0])
    brake.watch(voltage_v=np.full(10, voltage_v), power_w=POWER_W, contact_mohm=contact)
    for _ in range(then_ms // 10):
        brake.watch(voltage_v=np.full(10, 12.0), power_w=POWER_W, contact_mohm=contact)
    engaged: list[bool] = brake.engaged(NO, HERE).tolist()
    return engaged


def test_a_module_below_its_limit_is_braked_and_one_above_is_not() -> None:
    assert braked(11.0) == [False] * 4  # 32 A through 1 milliohm leave 10.97 V
    assert braked(10.92) == [True] * 4  # and here 10.89 V


def test_a_bad_contact_brakes_one_module_alone() -> None:
    assert braked(11.0, contact_mohm=5.0) == [False, True, False, False]


def test_the_brake_is_held_for_a_while_and_then_let_go() -> None:
    assert braked(10.8, then_ms=HOLD_MS - 10) == [True] * 4
    assert braked(10.8, then_ms=HOLD_MS) == [False] * 4


def test_a_scenario_brakes_whom_it_likes_but_nobody_who_is_gone() -> None:
    here = np.array([True, False, True, True])
    assert PowerBrake(HAZARD, 4).engaged(np.ones(4), here).tolist() == here.tolist()


def test_a_platform_without_a_power_brake_never_brakes() -> None:
    brake = PowerBrake(HAZARD.model_copy(update={"brake_below_v": 0.0}), 4)
    brake.watch(voltage_v=np.full(10, 6.0), power_w=POWER_W, contact_mohm=NO)
    assert not brake.engaged(NO, HERE).any()


def test_only_milliseconds_in_a_row_count_and_a_row_may_begin_in_the_block_before() -> None:
    hazard = HAZARD.model_copy(update={"brake_after_ms": 4.0})
    flickering, low = np.where(np.arange(10) % 2 == 0, 10.5, 12.0), np.full(2, 10.5)
    brake = PowerBrake(hazard, 4)
    brake.watch(voltage_v=flickering, power_w=POWER_W, contact_mohm=NO)
    brake.watch(voltage_v=low, power_w=POWER_W[:2], contact_mohm=NO)
    assert not brake.engaged(NO, HERE).any()
    brake.watch(voltage_v=low, power_w=POWER_W[:2], contact_mohm=NO)
    assert brake.engaged(NO, HERE).all()
