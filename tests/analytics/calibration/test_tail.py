"""The level that healthy time exceeds so rarely, from the largest values of its blocks."""

import math

import numpy as np
import pytest

from analytics.calibration.tail import bootstrapped_threshold, expected_threshold


def test_on_gumbel_maxima_the_bound_holds_the_true_level_in_19_cases_of_20() -> None:
    maxima = np.random.default_rng(3).gumbel(2.0, 0.5, (4000, 24))
    true = 2.0 - 0.5 * math.log(-math.log1p(-1.0 / 10_000.0))
    found = expected_threshold(maxima, blocks_per_alarm=10_000.0)
    assert 0.90 <= (found >= true).mean() <= 0.99
    assert np.median(found) < 1.6 * true  # a bound that is no use would hold it always


def test_a_threshold_from_correlated_noise_is_crossed_no_more_often_than_allowed() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 1, (40, 40_000))
    for row in range(1, noise.shape[1]):
        noise[:, row] += 0.9 * noise[:, row - 1]
    maxima = noise.reshape(40, 400, 100).max(axis=2)
    crossed = [(own[40:] > bootstrapped_threshold(own[:40], blocks_per_alarm=1000.0)).mean() for own in maxima]
    assert np.mean(crossed) <= 1 / 1000.0


def test_scale_and_shift_of_the_statistic_move_the_threshold_alike() -> None:
    maxima = np.random.default_rng(1).normal(3.0, 0.2, 30)
    plain = bootstrapped_threshold(maxima, blocks_per_alarm=5000.0)
    assert bootstrapped_threshold(10.0 * maxima + 7.0, blocks_per_alarm=5000.0) == pytest.approx(10.0 * plain + 7.0)


def test_a_rarer_alarm_requires_a_higher_threshold_and_none_lies_below_what_was_seen() -> None:
    maxima = np.random.default_rng(2).normal(1.0, 0.1, (5, 20))
    low, high = (expected_threshold(maxima, blocks_per_alarm=rarely) for rarely in (2.0, 1e6))
    assert (low >= maxima.max(axis=1)).all()
    assert (high > low).all()


def test_what_never_moved_stays_where_it_is_and_a_gap_is_no_threshold() -> None:
    assert expected_threshold(np.full((1, 12), 3.0), blocks_per_alarm=1e5).tolist() == [3.0]
    assert np.isnan(expected_threshold(np.array([[1.0, -np.inf, 2.0]]), blocks_per_alarm=100.0)).all()


def test_one_block_and_an_alarm_in_every_block_are_refused() -> None:
    with pytest.raises(ValueError, match="1 blocks"):
        expected_threshold(np.ones((3, 1)), blocks_per_alarm=100.0)
    with pytest.raises(ValueError, match="above 1"):
        expected_threshold(np.ones((3, 5)), blocks_per_alarm=1.0)
