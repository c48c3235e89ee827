import numpy as np
import pytest

from analytics.scoring.bounds import (
    block_draws,
    clustered_rate_bounds,
    count_dispersion,
    middle_share,
    rate_bounds,
    share_bounds,
)
from analytics.scoring.events import brier, expected_calibration_error


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.6889), (1, 0.02532, 5.5716), (3, 0.61867, 8.7673), (10, 4.7954, 18.3904)]
)
def test_rates_have_the_bounds_of_garwood(count: int, low: float, high: float) -> None:
    assert rate_bounds(count, 1.0) == pytest.approx((low, high), rel=1e-4)
    assert rate_bounds(count, 4.0) == pytest.approx((low / 4, high / 4), rel=1e-4)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0.0, 0.30850), (30, 30, 0.88430, 1.0), (5, 10, 0.18709, 0.81291), (1, 20, 0.00127, 0.24873)],
)
def test_shares_have_the_bounds_of_clopper_and_pearson(count: int, total: int, low: float, high: float) -> None:
    assert share_bounds(count, total) == pytest.approx((low, high), abs=1e-5)


def test_a_rate_without_exposure_and_a_share_of_nothing_are_misuse() -> None:
    with pytest.raises(ValueError, match="exposure"):
        rate_bounds(1, 0.0)
    with pytest.raises(ValueError, match="total"):
        share_bounds(0, 0)


def test_events_that_come_alone_have_poisson_bounds_and_clusters_wider_ones() -> None:
    alone = np.arange(50, 10_000, 1000)
    assert count_dispersion(alone, 10_000, block_rows=100) == 1.0
    assert clustered_rate_bounds(alone, 10_000, block_rows=100) == rate_bounds(10, 10_000)
    together = np.concatenate([np.arange(100, 190, 20), np.arange(5000, 5090, 20)])
    assert count_dispersion(together, 10_000, block_rows=100) == pytest.approx(4.9)
    low, high = clustered_rate_bounds(together, 10_000, block_rows=100)
    assert low < rate_bounds(10, 10_000)[0]
    assert high > rate_bounds(10, 10_000)[1]
    assert clustered_rate_bounds(alone[:0], 1000, block_rows=100) == rate_bounds(0, 1000)


def test_bounds_of_clustered_events_cover_their_rate() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(200):
        begins = np.flatnonzero(rng.random(10_000) < 0.002)
        places = np.unique((begins[:, None] + 12 * np.arange(4)).ravel())
        low, high = clustered_rate_bounds(places[places < 10_000], 10_000, block_rows=100)
        covered += low <= 0.008 <= high
    assert covered >= 184


def test_draws_are_blocks_of_neighbours_that_wrap() -> None:
    rows = block_draws(100, block_rows=10, draws=50, rng=np.random.default_rng(1))
    assert rows.shape == (50, 100)
    steps = np.diff(rows.reshape(50, 10, 10), axis=2)
    assert set(np.unique(steps)) <= {1, -99}
    assert (rows == block_draws(100, block_rows=10, draws=50, rng=np.random.default_rng(1))).all()


def test_bounds_of_a_mean_widen_where_neighbours_resemble_each_other() -> None:
    rng = np.random.default_rng(2)
    values = np.repeat(rng.normal(0, 1, 100), 20)
    widths = []
    for block_rows in (1, 100):
        rows = block_draws(2000, block_rows=block_rows, draws=300, rng=rng)
        low, high = middle_share(values[rows].mean(axis=1)) or (0.0, 0.0)
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]
    assert 0.25 < widths[1] < 0.5  # 2 * 1.96 / 10 if every block held whole groups


def test_no_draw_has_no_bounds() -> None:
    assert middle_share(np.array([np.nan])) is None


def test_brier_and_calibration_of_hand_counted_cases() -> None:
    drawn = np.array([0.9, 0.9, 0.1, 0.1, np.nan])
    happened = np.array([True, False, False, False, True])
    assert brier(drawn, happened) == pytest.approx((0.01 + 0.81 + 0.01 + 0.01) / 4)
    assert expected_calibration_error(drawn, happened) == pytest.approx((2 * 0.4 + 2 * 0.1) / 4)
    assert expected_calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0
    assert np.isnan(brier(np.array([np.nan]), np.array([True])))
