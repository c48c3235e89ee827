"""GPUs beside their siblings where these draw another power."""

import numpy as np
import pytest

from analytics.heat.comparison import beyond, chance_error, compare, unlikeness
from analytics.heat.windows import HeatWindow

NAN = float("nan")


def test_power_that_siblings_share_is_alike_and_half_of_it_is_not() -> None:
    groups = np.array([0, 0, 0, 0, 1])
    found = unlikeness(np.array([100.0, 200.0, 200.0, 200.0, 50.0]), groups)
    assert found == pytest.approx([0.5, 0.0, 0.0, 0.0, 0.0])
    assert unlikeness(np.array([NAN, 200.0, 200.0, NAN, NAN]), groups).tolist() == [0.0] * 5


def test_what_another_load_explains_is_no_excess_either_way() -> None:
    left = beyond(np.array([3.0, 1.0, -3.0, -1.0, NAN]), np.full(5, 1.25))
    assert left[:4] == pytest.approx([1.75, 0.0, -1.75, 0.0])
    assert np.isnan(left[4])


def test_an_excess_between_siblings_alike_counts_whole() -> None:
    assert beyond(np.array([3.0, -3.0]), np.zeros(2)).tolist() == [3.0, -3.0]


def test_siblings_that_are_idle_do_not_show_how_well_heat_leaves_the_others() -> None:
    power_w = np.array([355.0, 357.0, 361.0, 60.1, 61.2, 60.2])
    window = HeatWindow(
        ended_ns=0,
        temp_c=28.5 + 0.06 * np.maximum(power_w - 62.0, 0.0),
        power_w=power_w,
        sink_w=power_w,
        air_c=np.full(6, NAN),
        fan_ratio=np.full(6, NAN),
        part_error=np.zeros(6),
        cut=np.zeros(6, dtype=np.bool_),
    )
    idle_c = np.full(6, 28.5)
    found = compare(window, np.zeros(6, dtype=np.intp), air_c=idle_c, usable=np.ones(6, dtype=np.bool_))
    assert np.abs(found.excess_c[:3]).max() < 0.5
    assert np.isnan(found.excess_c[3:]).all()


def test_a_gpu_whose_bursts_fell_between_its_rows_is_as_unsure_as_its_siblings_show() -> None:
    groups = np.array([0, 0, 0, 0, 1])
    error = chance_error(np.array([0.0, 0.2, 0.2, 0.0, np.nan]), groups)
    assert error == pytest.approx([np.sqrt(0.02), 0.2, 0.2, np.sqrt(0.02), 0.0])
