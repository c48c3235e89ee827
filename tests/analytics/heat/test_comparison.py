"""GPUs beside their siblings where these draw another power."""

import numpy as np
import pytest

from analytics.heat.comparison import beyond, unlikeness

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
