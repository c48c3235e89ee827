"""The fit knows a change that goes with the load from one that does not once the load moved, and not before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.supply.load_fit import LoadFit
from telemetry.frames import FloatArray, filled

NOISE = 0.01
SLOPE_SD = np.array([0.01])


def fitted(rise: FloatArray, load: FloatArray) -> LoadFit:
    """Return the fit of one supply after blocks of shape ``(n_blocks,)``."""
    fit = filled(LoadFit, 1)
    for value, at in zip(rise, load, strict=True):
        fit = fit.after_block(np.array([True]), np.array([value]), np.array([at]), np.array([NOISE]))
    return fit


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0.2, 2.0), low=st.floats(0.3, 0.7))
def test_the_form_of_a_change_is_known_where_the_load_moves(seed: int, size: float, low: float) -> None:
    rng = np.random.default_rng(seed)
    load = np.where(rng.random(60) < 0.5, 1.0, low)
    noise = rng.normal(0.0, NOISE, 60)
    proportional, constant = fitted(size * load + noise, load), fitted(size + noise, load)
    assert proportional.goes_with_load(SLOPE_SD)[0]
    assert not proportional.is_constant(SLOPE_SD)[0]
    assert constant.is_constant(SLOPE_SD)[0]
    assert not constant.goes_with_load(SLOPE_SD)[0]
    assert proportional.slope()[0] == pytest.approx(size, rel=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_a_load_that_stands_still_decides_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fit = fitted(0.5 + rng.normal(0.0, NOISE, 300), 1.0 + rng.normal(0.0, 0.001, 300))
    assert fit.certain[0]
    assert not fit.goes_with_load(SLOPE_SD)[0]
    assert not fit.is_constant(SLOPE_SD)[0]


@pytest.mark.parametrize("seed", range(5))
def test_noise_about_nothing_is_no_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fit = fitted(rng.normal(0.0, NOISE, 5000), rng.uniform(0.3, 1.5, 5000))
    assert not (fit.certain | fit.goes_with_load(SLOPE_SD) | fit.is_constant(SLOPE_SD)).any()


@pytest.mark.parametrize("seed", range(20))
def test_a_drift_while_the_load_grows_goes_with_the_load_and_does_not_follow_its_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = np.linspace(0.5, 1.0, 120) * rng.uniform(0.95, 1.05, 120)
    noise = rng.normal(0.0, NOISE, 120)
    drift, joint = fitted(np.linspace(0.5, 1.0, 120) + noise, load), fitted(load + noise, load)
    assert drift.goes_with_load(SLOPE_SD)[0]
    assert not drift.follows_steps()[0]
    assert joint.follows_steps()[0]


def test_a_usual_line_that_is_not_known_decides_nothing() -> None:
    load = np.where(np.arange(60) % 2, 1.0, 0.5)
    assert fitted(0.3 * load, load).goes_with_load(np.array([0.05]))[0]
    assert not fitted(0.3 * load, load).goes_with_load(np.array([0.1]))[0]
    assert not fitted(np.full(60, 0.3), load).is_constant(np.array([0.1]))[0]


def test_what_is_not_judged_adds_nothing_and_what_is_reset_begins_again() -> None:
    fit = fitted(np.full(30, 0.5), np.linspace(0.5, 1.0, 30))
    same = fit.after_block(np.array([False]), np.array([np.nan]), np.array([np.nan]), np.array([NOISE]))
    assert same.rise == fit.rise
    assert same.blocks == fit.blocks
    assert fit.forget(np.array([True])).blocks[0] == 0.0
