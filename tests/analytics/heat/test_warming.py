import numpy as np
import pytest

from analytics.detectors.thermal_margin import time_to_limit_s
from analytics.heat.excess import ExcessSums, add_window, grown_share
from physics.cooling import power_factor, resistance_factor
from telemetry.frames import filled


@pytest.mark.parametrize(
    ("temp_c", "drift_c_per_s", "expected_s"),
    [
        (70.0, 0.5, 48.0 * np.log(24.0 / 7.0)),  # ends at 94
        (70.0, 0.3, None),  # ends at 84.4
        (70.0, -0.3, None),
        (70.0, 0.0, None),
        (88.0, 0.0, 0.0),
        (float("nan"), 0.3, None),
    ],
)
def test_time_to_a_limit(temp_c: float, drift_c_per_s: float, expected_s: float | None) -> None:
    found_s = time_to_limit_s(temp_c=temp_c, drift_c_per_s=drift_c_per_s, limit_c=87.0, slow_s=48.0)
    assert found_s is None if expected_s is None else found_s == pytest.approx(expected_s)


@pytest.mark.parametrize(("slope", "constant_c", "share"), [(0.023, 0.0, 1.0), (0.0, 5.0, 0.0), (0.0125, 2.5, 0.5)])
def test_an_excess_that_grows_with_power_is_reported_from_one_that_stays(
    slope: float, constant_c: float, share: float
) -> None:
    sums = filled(ExcessSums, 1)
    for power_w in [300.0, 100.0] * 5:
        excess_c = np.array([constant_c + slope * power_w])
        sums = add_window(sums, power_w=np.array([power_w]), excess_c=excess_c, kept=np.array([True]))
    assert grown_share(sums)[0] == pytest.approx(share, abs=0.03)


def test_a_steady_load_does_not_report_whether_an_excess_grows() -> None:
    sums = filled(ExcessSums, 1)
    for power_w in [250.0, 240.0] * 5:
        sums = add_window(sums, power_w=np.array([power_w]), excess_c=np.array([5.0]), kept=np.array([True]))
    assert np.isnan(grown_share(sums)[0])


def test_the_fan_law_is_one_at_half_duty_falls_with_speed_and_costs_the_cube() -> None:
    factors = resistance_factor(np.array([0.25, 0.5, 1.0, np.nan]))
    assert factors[1] == pytest.approx(1.0)
    assert factors[0] > 1.3
    assert factors[2] < 0.8
    assert np.isnan(factors[3])
    assert power_factor(2.0) == 8.0
