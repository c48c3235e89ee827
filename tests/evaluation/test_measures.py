import pytest

from evaluation.measures import NOTHING, brier_score, calibration_error, longest, median, rate, share


def test_a_share_comes_with_the_exact_bounds_of_the_books() -> None:
    found = share(20, 20)
    assert found.value == 1.0
    assert found.low == pytest.approx(0.8316, abs=1e-4)  # 0.025 ** (1 / 20)
    assert found.high == 1.0


def test_no_false_alarm_in_300_node_months_bounds_the_rate() -> None:
    found = rate(0, 300.0)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(3.689 / 300.0, rel=1e-3)  # -ln 0.025


def test_nothing_to_measure_is_no_zero() -> None:
    assert share(0, 0) == rate(0, 0.0) == median([]) == longest([]) == brier_score([], []) == NOTHING


def test_a_median_lies_within_its_bounds_and_is_the_same_every_time() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    found = median(values)
    assert found.value == 3.0
    assert found.low is not None
    assert found.high is not None
    assert 1.0 <= found.low <= 3.0 <= found.high <= 100.0
    assert median(values) == found


def test_a_probability_that_is_right_has_no_calibration_error() -> None:
    reported, happened = [0.75] * 4, [True, True, True, False]
    assert calibration_error(reported, happened).value == pytest.approx(0.0)
    assert brier_score(reported, happened).value == pytest.approx(0.1875)
    assert calibration_error([1.0] * 4, happened).value == pytest.approx(0.25)
