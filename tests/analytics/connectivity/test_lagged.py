import numpy as np
import numpy.typing as npt
import pytest

from analytics.connectivity.lagged import discoveries, lag_links, max_lag, whitened

Array = npt.NDArray[np.float64]


def slow(rng: np.random.Generator, n_series: int, *, rows: int = 2000, memory: float = 0.9) -> Array:
    """Independent series that each remember their past."""
    noise = rng.normal(0, 1, (rows, n_series))
    out = np.zeros_like(noise)
    for row in range(1, rows):
        out[row] = memory * out[row - 1] + noise[row]
    return out


def test_a_series_that_follows_another_is_found_with_its_lag() -> None:
    series = slow(np.random.default_rng(1), 2)
    series[4:, 1] += 1.0 * series[:-4, 0]
    (link,) = lag_links(series, [(0, 1)], lags=10, seed=1)
    assert (link.lag, link.is_significant) == (4, True)
    assert link.correlation > 0.3


def test_a_series_that_leads_has_a_lag_below_zero() -> None:
    series = slow(np.random.default_rng(1), 2)
    series[4:, 1] += 1.0 * series[:-4, 0]
    assert lag_links(series, [(1, 0)], lags=10, seed=1)[0].lag == -4


def test_independent_series_with_memory_are_linked_no_oftener_than_the_rate_asked_for() -> None:
    linked = 0
    for seed in range(40):
        series = slow(np.random.default_rng(seed), 4, rows=1000)
        pairs = [(a, b) for a in range(4) for b in range(a)]
        linked += any(link.is_significant for link in lag_links(series, pairs, lags=10, seed=seed))
    # 5 % of 40 families are 2; 7 or more would come by chance once in two hundred.
    assert linked <= 6


def test_one_link_stands_among_many_pairs() -> None:
    series = slow(np.random.default_rng(3), 12, rows=4000)
    series[2:, 7] += series[:-2, 3]
    pairs = [(a, b) for a in range(12) for b in range(12) if a != b]
    found = {(link.source, link.target) for link in lag_links(series, pairs, lags=10, seed=1) if link.is_significant}
    assert {(3, 7), (7, 3)} <= found
    assert len(found) <= 6


def test_the_same_seed_returns_the_same_answer_and_gaps_are_left_out() -> None:
    rng = np.random.default_rng(4)
    series = slow(rng, 2)
    series[4:, 1] += series[:-4, 0]
    series[rng.random(series.shape) < 0.05] = np.nan
    first = lag_links(series, [(0, 1)], lags=10, seed=9)
    assert first == lag_links(series, [(0, 1)], lags=10, seed=9)
    assert (first[0].lag, first[0].is_significant) == (4, True)


def test_constant_absent_and_short_series_give_no_link() -> None:
    rng = np.random.default_rng(5)
    series = np.stack([rng.normal(0, 1, 900), np.full(900, 12.0), np.full(900, np.nan)], axis=1)
    assert lag_links(series, [(0, 1), (0, 2), (1, 2)], lags=10, seed=1) == ()
    assert lag_links(series[:100, [0, 0]], [(0, 1)], lags=10, seed=1) == ()


def test_whitening_takes_memory_away_and_leaves_gaps_gaps() -> None:
    series = slow(np.random.default_rng(6), 1, rows=5000)
    left = whitened(series)[1:, 0]
    assert abs(np.corrcoef(left[1:], left[:-1])[0, 1]) < 0.05
    series[100] = np.nan
    assert np.flatnonzero(np.isnan(whitened(series)[:, 0])).tolist() == [0, 100, 101]
    with pytest.raises(ValueError, match="order 0"):
        whitened(series, order=0)


def test_discoveries_follow_the_step_up_rule() -> None:
    # Benjamini and Hochberg 1995, section 3.2: of fifteen p values the four smallest stand at 5 %.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p_values += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000]
    assert discoveries(p_values, rate=0.05).tolist() == [True] * 4 + [False] * 11
    assert discoveries([], rate=0.05).tolist() == []


def test_lags_reach_ten_rows_at_1_hz_and_fifty_from_10_hz() -> None:
    assert [max_lag(rate) for rate in (1.0, 10.0, 100.0)] == [10, 50, 50]
