import numpy as np
import pytest

from analytics.heat.baseline import (
    CELLS,
    LikePast,
    SlotOffsets,
    accept_past,
    accept_slots,
    expected_from_past,
    learn_past,
    learn_slots,
    rise_without_slot_c,
    slot_line,
    slot_offset_c,
    slot_variance_c2,
)
from analytics.heat.comparison import SCATTER_C
from telemetry.frames import filled

EVERY = np.array([True])


def taught(rises_c: list[float], excesses_c: list[float]) -> SlotOffsets:
    offsets = filled(SlotOffsets, 1)
    for rise_c, excess_c in zip(rises_c, excesses_c, strict=True):
        offsets = learn_slots(
            offsets,
            rise_c=np.array([rise_c]),
            excess_c=np.array([excess_c]),
            variance_c2=np.array([SCATTER_C**2]),
            where=EVERY,
        )
    return offsets


def test_a_slot_that_was_not_learnt_adds_nothing() -> None:
    assert slot_offset_c(filled(SlotOffsets, 2), np.array([10.0, 30.0])).tolist() == [0.0, 0.0]


def test_constant_and_proportional_parts_are_reported_apart_where_the_load_changed() -> None:
    rises_c = [15.0, 20.0, 25.0, 30.0, 35.0] * 20
    constant_c, slope = slot_line(taught(rises_c, [2.0 + 0.03 * rise_c for rise_c in rises_c]))
    assert constant_c[0] == pytest.approx(2.0, abs=0.15)
    assert slope[0] == pytest.approx(0.03, abs=0.006)


def test_where_the_load_never_changed_the_offset_is_right_there_and_near_elsewhere() -> None:
    offsets = taught([25.0] * 30, [2.5] * 30)
    assert slot_offset_c(offsets, np.array([25.0]))[0] == pytest.approx(2.5, abs=0.05)
    # Between the same kelvin and the same share of the rise, 1.5 K.
    assert slot_offset_c(offsets, np.array([15.0]))[0] == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize("rise_c", [5.0, 20.0, 45.0])
def test_the_rise_without_its_slot_is_that_to_which_the_slot_adds(rise_c: float) -> None:
    offsets = taught([15.0, 25.0, 35.0] * 20, [2.0 - 0.1 * rise for rise in (15.0, 25.0, 35.0)] * 20)
    shown_c = rise_c + slot_offset_c(offsets, np.array([rise_c]))
    assert rise_without_slot_c(offsets, shown_c)[0] == pytest.approx(rise_c)


def test_a_slot_that_would_take_all_heat_is_a_wrong_reading_and_stays_finite() -> None:
    offsets = taught([10.0, 20.0, 40.0] * 200, [-10.0, -20.0, -40.0] * 200)
    assert abs(rise_without_slot_c(offsets, np.array([20.0]))[0]) < 60.0


def test_a_slot_is_sure_where_it_was_seen_and_unsure_elsewhere() -> None:
    offsets = taught([25.0] * 30, [2.5] * 30)
    seen_c2, other_c2 = slot_variance_c2(offsets, np.array([25.0]))[0], slot_variance_c2(offsets, np.array([10.0]))[0]
    assert seen_c2 == pytest.approx(SCATTER_C**2 / 30, rel=0.05)
    assert other_c2 > 20 * seen_c2
    both = taught([25.0, 10.0] * 15, [2.5, 1.5] * 15)
    assert slot_variance_c2(both, np.array([10.0]))[0] < 2 * SCATTER_C**2 / 15


def test_windows_that_are_not_known_teach_nothing_and_an_accepted_slot_starts_again() -> None:
    offsets = taught([25.0, float("nan"), 25.0], [2.5, 2.5, float("nan")])
    assert offsets.windows.tolist() == [1.0]
    again = accept_slots(offsets, EVERY)
    assert slot_offset_c(again, np.array([25.0])).tolist() == [0.0]


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
