import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.plant.power import part_power

MODEL = part_power(load_node("v100x4").gpu)


def power_w(clock_mhz: float, level: float, temp_c: float = 50.0, input_factor: float = 1.0) -> float:
    return float(MODEL.power_w(np.array(clock_mhz), np.array(level), np.array(temp_c), input_factor))


def test_full_load_at_boost_is_350_w() -> None:
    assert power_w(1530.0, 1.0) == pytest.approx(350.0, abs=1.0)


def test_full_load_at_1005_mhz_is_what_the_field_report_measured() -> None:
    # blbadger.github.io/gpu-server: about 200 W with -ac 877,1005
    assert power_w(1005.0, 1.0) == pytest.approx(202.0, abs=5.0)


def test_idle_is_42_w_at_any_clock() -> None:
    assert power_w(135.0, 0.0) == pytest.approx(42.0)
    assert power_w(1530.0, 0.0) == pytest.approx(42.0)


def test_other_data_change_the_switching_power_and_nothing_else() -> None:
    assert power_w(1530.0, 1.0, input_factor=0.7) == pytest.approx(113.0 + 0.7 * 237.0)
    assert power_w(1530.0, 0.0, input_factor=0.7) == pytest.approx(42.0)


def test_leakage_grows_with_the_base_power_alone() -> None:
    # 0.3 % per kelvin of the 113 W, whatever the clock
    assert power_w(1530.0, 1.0, 70.0) - power_w(1530.0, 1.0) == pytest.approx(0.003 * 20.0 * 113.0)
    assert power_w(405.0, 1.0, 70.0) - power_w(405.0, 1.0) == pytest.approx(0.003 * 20.0 * 113.0)


def test_the_voltage_stays_at_its_floor_below_the_knee() -> None:
    clocks = np.array([135.0, 500.0, 0.63 * 1530.0, 1530.0])
    assert MODEL.voltage_ratio(clocks) == pytest.approx([0.73, 0.73, 0.73, 1.0])


@given(
    low=st.floats(135.0, 1530.0),
    high=st.floats(135.0, 1530.0),
    level=st.floats(0.0, 1.0),
    temp_c=st.floats(10.0, 90.0),
)
def test_power_is_positive_and_rises_with_clock_and_temperature(
    low: float, high: float, level: float, temp_c: float
) -> None:
    low, high = min(low, high), max(low, high)
    assert 0.0 < power_w(low, level, temp_c) <= power_w(high, level, temp_c) <= power_w(high, level, temp_c + 5.0)
