import numpy as np
import pytest

from analytics.heat.baseline import CELLS, LikePast, accept_past, expected_from_past, learn_past
from telemetry.frames import filled

EVERY = np.array([True])


def seen(state: LikePast, power_w: float, air_c: float, value: float, times: int = 1) -> LikePast:
    for _ in range(times):
        likeness = state.like(np.array([power_w]), np.array([air_c]))
        state = learn_past(state, likeness, np.array([value]), where=EVERY, windows=10)
    return state


def normal(state: LikePast, power_w: float, air_c: float) -> float:
    likeness = state.like(np.array([power_w]), np.array([air_c]))
    return float(expected_from_past(state, likeness, windows=10)[0])


def test_similar_conditions_are_expected_to_repeat() -> None:
    state = seen(filled(LikePast, 1), 250.0, 22.0, 30.0, times=10)
    assert normal(state, 255.0, 23.0) == pytest.approx(30.0)


@pytest.mark.parametrize(("power_w", "air_c"), [(200.0, 22.0), (250.0, 26.0), (float("nan"), 22.0), (0.0, 22.0)])
def test_other_conditions_are_not_judged(power_w: float, air_c: float) -> None:
    state = seen(filled(LikePast, 1), 250.0, 22.0, 30.0, times=10)
    assert np.isnan(normal(state, power_w, air_c))


def test_a_cell_is_not_used_before_it_is_learned_and_frozen_afterwards() -> None:
    state = seen(filled(LikePast, 1), 250.0, 22.0, 30.0, times=9)
    assert np.isnan(normal(state, 250.0, 22.0))
    state = seen(seen(state, 250.0, 22.0, 30.0), 250.0, 22.0, 60.0, times=500)
    assert normal(state, 250.0, 22.0) == pytest.approx(30.0)


def test_more_conditions_than_cells_are_left_aside() -> None:
    state = filled(LikePast, 1)
    for number in range(CELLS + 5):
        state = seen(state, 50.0 * 1.3**number, 22.0, float(number), times=10)
    assert normal(state, 50.0, 22.0) == pytest.approx(0.0)
    assert np.isnan(normal(state, 50.0 * 1.3 ** (CELLS + 2), 22.0))


def test_an_accepted_past_is_learned_again() -> None:
    state = accept_past(seen(filled(LikePast, 1), 250.0, 22.0, 30.0, times=10), EVERY)
    assert np.isnan(normal(state, 250.0, 22.0))
    assert normal(seen(state, 250.0, 22.0, 40.0, times=10), 250.0, 22.0) == pytest.approx(40.0)
