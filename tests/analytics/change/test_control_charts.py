import numpy as np
import pytest

from analytics.change.control_charts import CusumState, cusum_step
from telemetry.frames import FloatArray, MaskArray, filled


def exceeds(state: CusumState, limit_sigmas: float = 8.0) -> MaskArray:
    """Return which sums passed the limit of the usual design: a false alarm every 19,000 values, one-sided."""
    return (state.above > limit_sigmas) | (state.below > limit_sigmas)


def run_lengths(*, shift_sigmas: float, limit_sigmas: float, n_series: int, max_rows: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    state = filled(CusumState, n_series)
    length = np.full(n_series, np.nan)
    for row in range(1, max_rows + 1):
        state = cusum_step(state, rng.normal(shift_sigmas, 1.0, n_series), mean=0.0, sigma=1.0)
        length[(state.above > limit_sigmas) & np.isnan(length)] = row
        if not np.isnan(length).any():
            break
    return length


def test_white_noise_returns_a_false_alarm_every_931_values_at_a_limit_of_five() -> None:
    # One-sided, from the Markov chain of Brook and Evans (1972).
    length = run_lengths(shift_sigmas=0.0, limit_sigmas=5.0, n_series=3000, max_rows=12_000, seed=1)
    assert np.nanmean(length) == pytest.approx(931, rel=0.06)


def test_white_noise_returns_a_false_alarm_every_19000_values_at_a_limit_of_eight() -> None:
    rng = np.random.default_rng(2)
    state, alarms, n_series = filled(CusumState, 20_000), 0, 20_000
    for row in range(1200):
        state = cusum_step(state, rng.normal(0, 1, n_series), mean=0.0, sigma=1.0)
        passed = state.above > 8.0
        state = state.cleared(passed)
        alarms += int(passed.sum()) if row >= 200 else 0  # the sums start at zero and must reach their usual course
    assert n_series * 1000 / alarms == pytest.approx(1.9e4, rel=0.12)


@pytest.mark.parametrize(
    ("limit", "shift", "delay"), [(5.0, 0.5, 38.0), (5.0, 1.0, 10.4), (5.0, 2.0, 4.0), (8.0, 1.0, 16.4)]
)
def test_a_shift_is_found_after_the_delay_of_the_table(limit: float, shift: float, delay: float) -> None:
    length = run_lengths(shift_sigmas=shift, limit_sigmas=limit, n_series=4000, max_rows=1000, seed=3)
    assert np.nanmean(length) == pytest.approx(delay, rel=0.05)


def test_neighbours_that_resemble_each_other_ruin_the_rate_and_whitening_restores_it() -> None:
    rng = np.random.default_rng(4)
    state, length, value = filled(CusumState, 2000), np.full(2000, np.nan), rng.normal(0, 1, 2000)
    for row in range(1, 3000):
        value = 0.9 * value + np.sqrt(1 - 0.81) * rng.normal(0, 1, 2000)
        state = cusum_step(state, value, mean=0.0, sigma=1.0)
        length[(state.above > 5.0) & np.isnan(length)] = row
    assert np.nanmean(length) < 931 / 8


def test_a_gap_a_dead_sigma_and_other_series_change_nothing() -> None:
    state = CusumState(above=np.array([1.0, 2.0, 3.0]), below=np.array([0.5, 0.0, 0.0]))
    after = cusum_step(state, np.array([np.nan, 9.0, 0.0]), mean=0.0, sigma=np.array([1.0, 0.0, 1.0]))
    assert after.above.tolist() == [1.0, 2.0, 2.5]
    assert after.below.tolist() == [0.5, 0.0, 0.0]


def test_both_directions_are_watched() -> None:
    state = filled(CusumState, 2)
    for _ in range(20):
        state = cusum_step(state, np.array([2.0, -2.0]), mean=0.0, sigma=1.0)
    assert exceeds(state).tolist() == [True, True]
    assert exceeds(state.cleared(np.array([True, False]))).tolist() == [False, True]


def test_one_wild_value_alone_raises_nothing() -> None:
    state = cusum_step(filled(CusumState, 1), np.array([1e9]), mean=0.0, sigma=1.0)
    assert not exceeds(state).any()
