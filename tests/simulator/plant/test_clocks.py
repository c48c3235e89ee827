from dataclasses import replace

import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.plant.clocks import ClockGovernor, Settings
from simulator.plant.models import clock_limits
from simulator.plant.plant import default_settings

NODE = load_node("v100x4")
NO, YES = np.zeros(4, dtype=np.bool_), np.ones(4, dtype=np.bool_)
COOL_C = np.full(4, 55.0)


def governor() -> ClockGovernor:
    return ClockGovernor(clock_limits(NODE), 4, power_w=np.full(4, 250.0))


def settings(**changes: float) -> Settings:
    return replace(default_settings(NODE), **{name: np.full(4, value) for name, value in changes.items()})


def test_without_any_cap_the_clock_is_the_highest_and_no_reason_stands() -> None:
    clocks = governor()
    clocks.decide(10, settings(), temp_c=COOL_C, brake=NO, idle=NO)
    assert clocks.clock_mhz.tolist() == [1530.0] * 4
    assert clocks.reasons.tolist() == [0] * 4


def test_applications_clocks_cap_and_say_so_and_locked_clocks_cap_in_silence() -> None:
    clocks = governor()
    clocks.decide(10, settings(app_clock_mhz=1005.0), temp_c=COOL_C, brake=NO, idle=NO)
    assert (clocks.clock_mhz.tolist(), clocks.reasons.tolist()) == ([1005.0] * 4, [0x2] * 4)
    clocks = governor()
    clocks.decide(10, settings(locked_mhz=1010.0), temp_c=COOL_C, brake=NO, idle=NO)
    assert (clocks.clock_mhz.tolist(), clocks.reasons.tolist()) == ([1005.0] * 4, [0] * 4)  # the next supported below


def test_a_released_cap_gives_the_clock_back() -> None:
    clocks = governor()
    clocks.decide(10, settings(app_clock_mhz=1005.0), temp_c=COOL_C, brake=NO, idle=NO)
    for _ in range(100):
        clocks.observe(10, np.full(4, 200.0), np.full(4, 300.0))
        clocks.decide(10, settings(), temp_c=COOL_C, brake=NO, idle=NO)
    assert clocks.clock_mhz.tolist() == [1530.0] * 4


def test_power_above_the_limit_takes_clock_and_says_so() -> None:
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
