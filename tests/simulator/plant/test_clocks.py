from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.plant.clocks import HOLD_MS, BrakeSignal, ClockGovernor, Settings, part_clocks
from simulator.plant.plant import default_settings

NODE = load_node("v100x4")
NO, YES = np.zeros(4, dtype=np.bool_), np.ones(4, dtype=np.bool_)
COOL_C = np.full(4, 55.0)
HAZARD = load_node("v100x4").gpu.hazard
UNBRAKED = np.zeros(4)
HERE = np.ones(4, dtype=np.bool_)
POWER_W = np.full((10, 4), 350.0)


def governor() -> ClockGovernor:
    return ClockGovernor(part_clocks(NODE.gpu), 4, power_w=np.full(4, 250.0))


def settings(**changes: float) -> Settings:
    return replace(default_settings(NODE), **{name: np.full(4, value) for name, value in changes.items()})


def test_without_any_cap_the_clock_is_the_highest_and_no_reason_stands() -> None:
    clocks = governor()
    clocks.decide(10, settings(), temp_c=COOL_C, brake=NO, idle=NO)
    assert clocks.clock_mhz.tolist() == [1530.0] * 4
    assert clocks.reasons.tolist() == [0] * 4


def test_applications_clocks_cap_and_state_so_and_locked_clocks_cap_in_silence() -> None:
    clocks = governor()
    clocks.decide(10, settings(app_clock_mhz=1005.0), temp_c=COOL_C, brake=NO, idle=NO)
    assert (clocks.clock_mhz.tolist(), clocks.reasons.tolist()) == ([1005.0] * 4, [0x2] * 4)
    clocks = governor()
    clocks.decide(10, settings(locked_mhz=1010.0), temp_c=COOL_C, brake=NO, idle=NO)
    assert (clocks.clock_mhz.tolist(), clocks.reasons.tolist()) == ([1005.0] * 4, [0] * 4)  # the next supported below


def test_a_released_cap_returns_the_clock_back() -> None:
    clocks = governor()
    clocks.decide(10, settings(app_clock_mhz=1005.0), temp_c=COOL_C, brake=NO, idle=NO)
    for _ in range(100):
        clocks.observe(10, np.full(4, 200.0), np.full(4, 300.0))
        clocks.decide(10, settings(), temp_c=COOL_C, brake=NO, idle=NO)
    assert clocks.clock_mhz.tolist() == [1530.0] * 4


def test_power_above_the_limit_takes_clock_and_states_so() -> None:
    clocks = governor()
    for _ in range(100):
        clocks.observe(10, np.full(4, 350.0), np.full(4, 300.0))
        clocks.decide(10, settings(), temp_c=COOL_C, brake=NO, idle=NO)
    assert (clocks.clock_mhz < 1300.0).all()
    assert clocks.reasons.tolist() == [0x4] * 4


def test_the_brake_halves_the_clock_under_bits_0x80_and_0x8() -> None:
    clocks = governor()
    clocks.decide(10, settings(), temp_c=COOL_C, brake=np.array([True, False, False, False]), idle=NO)
    assert clocks.clock_mhz.tolist() == [765.0, 1530.0, 1530.0, 1530.0]
    assert clocks.reasons.tolist() == [0x88, 0, 0, 0]


def test_heat_first_takes_clock_slowly_and_then_halves_it() -> None:
    clocks = governor()
    for _ in range(100):
        clocks.decide(10, settings(), temp_c=np.full(4, 84.0), brake=NO, idle=NO)
    assert clocks.clock_mhz == pytest.approx(1530.0 - 150.0, abs=8.0)
    assert clocks.reasons.tolist() == [0x20] * 4
    clocks.decide(10, settings(), temp_c=np.full(4, 88.0), brake=NO, idle=NO)
    assert (clocks.clock_mhz < 700.0).all()
    assert clocks.reasons.tolist() == [0x20 | 0x40 | 0x8] * 4


def test_an_idle_gpu_drops_to_its_lowest_clock() -> None:
    clocks = governor()
    clocks.decide(10, settings(), temp_c=COOL_C, brake=NO, idle=YES)
    assert (clocks.clock_mhz.tolist(), clocks.reasons.tolist()) == ([135.0] * 4, [0x1] * 4)


def test_heat_takes_clock_from_a_capped_gpu_at_once_too() -> None:
    clocks = governor()
    for _ in range(10):
        clocks.decide(10, settings(app_clock_mhz=1005.0), temp_c=np.full(4, 84.0), brake=NO, idle=NO)
    assert clocks.clock_mhz == pytest.approx(1005.0 - 15.0, abs=8.0)
    assert clocks.reasons.tolist() == [0x20] * 4


def test_what_heat_took_comes_back_as_slowly_once_it_is_two_kelvin_cooler() -> None:
    clocks = governor()
    seen_mhz = []
    for temp_c in (84.0, 82.0, 80.0):
        for _ in range(50):
            clocks.decide(10, settings(), temp_c=np.full(4, temp_c), brake=NO, idle=NO)
        seen_mhz.append(float(clocks.clock_mhz[0]))
    assert seen_mhz == pytest.approx([1455.0, 1455.0, 1530.0], abs=8.0)


@given(
    watts=st.lists(st.floats(0.0, 400.0), min_size=1, max_size=60),
    temp_c=st.floats(20.0, 95.0),
    app_clock_mhz=st.floats(135.0, 1530.0),
    locked_mhz=st.floats(135.0, 1530.0),
    limit_w=st.floats(150.0, 300.0),
)
def test_no_clock_ever_exceeds_what_was_asked_for_and_each_is_one_of_the_part(
    *, watts: list[float], temp_c: float, app_clock_mhz: float, locked_mhz: float, limit_w: float
) -> None:
    clocks, asked = governor(), settings(app_clock_mhz=app_clock_mhz, locked_mhz=locked_mhz)
    for power_w in watts:
        clocks.observe(10, np.full(4, power_w), np.full(4, limit_w))
        clocks.decide(10, asked, temp_c=np.full(4, temp_c), brake=NO, idle=NO)
        assert (clocks.clock_mhz <= min(app_clock_mhz, locked_mhz)).all()
        assert np.isin(clocks.clock_mhz, NODE.gpu.clocks.supported_mhz).all()


@given(limit_w=st.floats(150.0, 300.0), watts=st.lists(st.floats(0.0, 400.0), min_size=1, max_size=60))
def test_more_power_never_returns_more_clock(limit_w: float, watts: list[float]) -> None:
    less, more = governor(), governor()
    for power_w in watts:
        for clocks, drawn_w in ((less, power_w), (more, power_w + 20.0)):
            clocks.observe(20, np.full(4, drawn_w), np.full(4, limit_w))
            clocks.decide(20, settings(), temp_c=COOL_C, brake=NO, idle=NO)
        assert (more.clock_mhz <= less.clock_mhz).all()


def test_power_at_the_limit_takes_no_clock() -> None:
    clocks = governor()
    for _ in range(50):
        clocks.observe(20, np.full(4, 250.0), np.full(4, 250.0))
    clocks.decide(20, settings(), temp_c=COOL_C, brake=NO, idle=NO)
    assert clocks.clock_mhz.tolist() == [1530.0] * 4


def braked(voltage_v: float, *, contact_mohm: float = 0.0, then_ms: int = 0) -> list[bool]:
    """Return who is braked after a block at a voltage, and then a while on a good rail."""
    brake = BrakeSignal(HAZARD, 4)
    contact = np.array([0.0, contact_mohm, 0.0, 0.0])
    brake.watch(voltage_v=np.full((10, 4), voltage_v), power_w=POWER_W, contact_mohm=contact)
    for _ in range(then_ms // 10):
        brake.watch(voltage_v=np.full((10, 4), 12.0), power_w=POWER_W, contact_mohm=contact)
    engaged: list[bool] = brake.engaged(UNBRAKED, HERE).tolist()
    return engaged


def test_a_module_below_its_limit_is_braked_and_one_above_is_not() -> None:
    assert braked(11.0) == [False] * 4  # 32 A through 1 milliohm leave 10.97 V
    assert braked(10.92) == [True] * 4  # and here 10.89 V


def test_a_bad_contact_brakes_one_module_alone() -> None:
    assert braked(11.0, contact_mohm=5.0) == [False, True, False, False]


def test_the_brake_is_held_for_a_while_and_then_let_go() -> None:
    assert braked(10.8, then_ms=HOLD_MS - 10) == [True] * 4
    assert braked(10.8, then_ms=HOLD_MS) == [False] * 4


def test_a_scenario_brakes_any_gpu_but_a_lost_one() -> None:
    here = np.array([True, False, True, True])
    assert BrakeSignal(HAZARD, 4).engaged(np.ones(4), here).tolist() == here.tolist()


def test_a_platform_without_a_power_brake_never_brakes() -> None:
    brake = BrakeSignal(HAZARD.model_copy(update={"brake_below_v": 0.0}), 4)
    brake.watch(voltage_v=np.full((10, 4), 6.0), power_w=POWER_W, contact_mohm=UNBRAKED)
    assert not brake.engaged(UNBRAKED, HERE).any()


def test_only_milliseconds_in_a_row_count_and_a_row_may_begin_in_the_block_before() -> None:
    hazard = HAZARD.model_copy(update={"brake_after_ms": 4.0})
    flickering = np.tile(np.where(np.arange(10) % 2 == 0, 10.5, 12.0)[:, None], (1, 4))
    low = np.full((2, 4), 10.5)
    brake = BrakeSignal(hazard, 4)
    brake.watch(voltage_v=flickering, power_w=POWER_W, contact_mohm=UNBRAKED)
    brake.watch(voltage_v=low, power_w=POWER_W[:2], contact_mohm=UNBRAKED)
    assert not brake.engaged(UNBRAKED, HERE).any()
    brake.watch(voltage_v=low, power_w=POWER_W[:2], contact_mohm=UNBRAKED)
    assert brake.engaged(UNBRAKED, HERE).all()
