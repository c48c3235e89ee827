from itertools import pairwise

import numpy as np
import pytest

from analytics.change.control_charts import MIN_VALUES, EwmaState, PageHinkleyState, ewma_step, page_hinkley_step
from analytics.change.table import fit_autoregression, whitened
from telemetry.frames import MaskArray, filled

EWMA_LIMIT = 2.814  # Lucas and Saccucci (1990), table 3, gain 0.1: a false alarm every 500 values of white noise
PAGE_HINKLEY_LIMIT = 50.0  # the default of River and CapyMOA for values of unit scale


def alarms(state: PageHinkleyState) -> MaskArray:
    changed = np.maximum(state.above, state.below) > PAGE_HINKLEY_LIMIT
    return np.asarray((state.n_values >= MIN_VALUES) & changed, dtype=np.bool_)


def test_the_weighted_mean_of_white_noise_leaves_its_limits_once_in_five_hundred_values() -> None:
    # Lucas and Saccucci (1990), table 3: gain 0.1, limit 2.814.
    rng = np.random.default_rng(1)
    state, length = filled(EwmaState, 2000), np.full(2000, np.nan)
    for row in range(1, 5000):
        state = ewma_step(state, rng.normal(0, 1, 2000), mean=0.0, sigma=1.0)
        length[(state.distance() > EWMA_LIMIT) & np.isnan(length)] = row
    assert np.nanmean(length) == pytest.approx(500, rel=0.1)


def test_the_weighted_mean_knows_the_size_of_a_shift() -> None:
    state = filled(EwmaState, 1)
    for _ in range(100):
        state = ewma_step(state, np.array([13.0]), mean=10.0, sigma=2.0)
    assert state.off_sigmas[0] == pytest.approx(1.5, rel=1e-3)


def test_gaps_leave_the_weighted_mean_alone() -> None:
    state = ewma_step(filled(EwmaState, 2), np.array([3.0, np.nan]), mean=0.0, sigma=1.0)
    assert state.n_values.tolist() == [1, 0]
    assert (state.distance() > EWMA_LIMIT).tolist() == [True, False]


def test_page_hinkley_finds_a_step_up_and_a_step_down_of_an_unknown_mean() -> None:
    rng = np.random.default_rng(2)
    state, found = filled(PageHinkleyState, 3), [0, 0, 0]
    for row in range(1000):
        step = 3.0 if row >= 500 else 0.0
        state = page_hinkley_step(state, 7.0 + np.array([step, -step, 0.0]) + rng.normal(0, 1, 3))
        for series in np.flatnonzero(alarms(state)):
            found[series] = found[series] or row
    assert 500 < found[0] < 540
    assert 500 < found[1] < 540
    assert found[2] == 0


def test_page_hinkley_states_nothing_of_few_values_and_ignores_gaps() -> None:
    state = filled(PageHinkleyState, 1)
    for row in range(MIN_VALUES - 1):
        state = page_hinkley_step(state, np.array([0.0 if row < 5 else 1e4]))
    assert not alarms(state).any()
    after = page_hinkley_step(state, np.array([np.nan]))
    assert (after.n_values[0], after.mean[0], after.above[0]) == (state.n_values[0], state.mean[0], state.above[0])


def test_errors_of_a_fitted_autoregression_are_white() -> None:
    rng = np.random.default_rng(3)
    rows = np.zeros((5000, 2))
    for row in range(1, 5000):
        rows[row] = 5.0 * (1 - np.array([0.9, 0.0])) + np.array([0.9, 0.0]) * rows[row - 1] + rng.normal(0, 2, 2)
    rows = rows[500:]
    model = fit_autoregression(rows)
    assert model.correlation == pytest.approx([0.9, 0.0], abs=0.05)
    errors = np.array([whitened(model, before, now) for before, now in pairwise(rows)])
    assert errors.std(axis=0) == pytest.approx([1.0, 1.0], rel=0.02)
    assert abs(np.corrcoef(errors[1:, 0], errors[:-1, 0])[0, 1]) < 0.05


def test_what_was_hardly_seen_or_never_moved_has_no_errors() -> None:
    rows = np.array([[1.0, np.nan, 4.0]] * 100)
    rows[::2, 2] += 1.0
    rows[:, 2][::3] = np.nan
    model = fit_autoregression(rows)
    errors = whitened(model, np.array([1.0, 1.0, 4.0]), np.array([9.0, 9.0, np.nan]))
    assert np.isnan(errors).all()
