import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.plant.cooling import Fans

COOLING = load_node("v100x4").cooling
PERIOD_MS = 30_000


def run(fans: Fans, hottest_c: float, periods: int) -> list[float]:
    seen = []
    for _ in range(periods):
        fans.advance(PERIOD_MS, hottest_c=hottest_c)
        seen.append(fans.ratio)
    return seen


def test_the_duty_moves_once_per_period_only() -> None:
    fans = Fans(COOLING)
    for _ in range(2999):
        fans.advance(10, hottest_c=90.0)
    assert fans.ratio == COOLING.start_ratio
    fans.advance(10, hottest_c=90.0)
    assert fans.ratio > COOLING.start_ratio


def test_at_the_target_nothing_changes_and_beside_it_the_duty_goes_the_right_way() -> None:
    assert run(Fans(COOLING), COOLING.target_c, 5) == [COOLING.start_ratio] * 5
    warm, cool = run(Fans(COOLING), COOLING.target_c + 5.0, 5), run(Fans(COOLING), COOLING.target_c - 5.0, 5)
    assert warm == sorted(warm)
    assert cool == sorted(cool, reverse=True)


@given(temperatures_c=st.lists(st.one_of(st.floats(10.0, 100.0), st.just(float("nan"))), max_size=50))
def test_the_duty_stays_between_its_lowest_and_one(temperatures_c: list[float]) -> None:
    fans = Fans(COOLING)
    for hottest_c in temperatures_c:
        fans.advance(PERIOD_MS, hottest_c=hottest_c)
        assert COOLING.min_ratio <= fans.ratio <= 1.0


def test_it_does_not_wind_up() -> None:
    fans = Fans(COOLING)
    run(fans, 95.0, 100)
    assert fans.ratio == 1.0
    assert run(fans, COOLING.target_c - 5.0, 1)[0] < 0.8


def test_without_any_gpu_to_look_at_the_fans_go_to_full_speed() -> None:
    assert run(Fans(COOLING), float("nan"), 1) == [1.0]


def test_power_goes_with_the_cube_and_speed_and_flow_in_proportion() -> None:
    fans = Fans(COOLING)
    assert fans.power_w(1.0) == pytest.approx(COOLING.max_w / 8.0)
    assert fans.power_w(0.5) == pytest.approx(COOLING.max_w / 16.0)
    assert fans.flow_ratio(0.5) == 0.25
    rpm = fans.rpm(0.75)
    assert (len(rpm), int(np.count_nonzero(rpm)), float(rpm[0])) == (40, 30, 12_500.0)


def test_air_leaves_some_twenty_kelvin_warmer_at_full_load_and_half_speed() -> None:
    assert 15.0 < Fans(COOLING).outlet_rise_k(1750.0, 1.0) < 25.0


def test_fans_that_stand_still_leave_a_little_flow_and_take_nothing() -> None:
    fans = Fans(COOLING)
    fans.stop()
    assert fans.power_w(1.0) == 0.0
    assert 0.0 < fans.flow_ratio(1.0) < 0.1
    assert np.isfinite(fans.outlet_rise_k(1750.0, 1.0))
    fans.start()
    assert fans.ratio == COOLING.start_ratio
