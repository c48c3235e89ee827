"""A byte and what it stands for."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.served.board.scale import RAW_MAX, scale_of, scale_up_to

HIGHEST = st.floats(min_value=0.5, max_value=50_000.0)


@given(highest=HIGHEST)
def test_the_finest_scale_reaches_what_it_must_and_wastes_little(highest: float) -> None:
    scale = scale_up_to(highest)
    assert highest * (1 - 1e-9) <= RAW_MAX * scale.step <= 1.11 * highest
    assert 1 <= scale.m <= 100


@given(highest=HIGHEST, share=st.floats(min_value=0.0, max_value=1.0))
def test_a_value_within_reach_comes_back_within_half_a_step(highest: float, share: float) -> None:
    scale = scale_up_to(highest)
    raw = scale.raw(share * highest)
    assert raw is not None
    assert abs(scale.value(raw) - share * highest) <= 0.5001 * scale.step


def test_what_is_beyond_the_scale_stays_at_its_end_and_nothing_stays_nothing() -> None:
    scale = scale_up_to(15.0)
    assert scale.raw(1000.0) == RAW_MAX
    assert scale.raw(-3.0) == 0
    assert scale.raw(math.nan) is None


@pytest.mark.parametrize(("step", "m", "exponent"), [(0.063, 63, -3), (1.0, 1, 0), (100.0, 1, 2), (0.25, 25, -2)])
def test_a_step_that_reaches_far_enough_is_kept_exactly(step: float, m: int, exponent: int) -> None:
    scale = scale_of(step, 200.0 * step)
    assert (scale.m, scale.exponent) == (m, exponent)


def test_a_step_that_does_not_reach_returns_way_to_one_that_does() -> None:
    assert scale_of(10.0, 12_000.0) == scale_up_to(12_000.0)
    assert scale_of(0.0, 15.0) == scale_up_to(15.0)


def test_a_scale_that_reaches_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        scale_up_to(0.0)
