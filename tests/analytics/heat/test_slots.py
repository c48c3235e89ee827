import numpy as np
import pytest

from analytics.heat.comparison import SCATTER_C
from analytics.heat.slots import (
    SlotLine,
    SlotOffsets,
    Surroundings,
    accept_slots,
    flow_change,
    flow_error_c,
    front_variance_c2,
    is_alike,
    learn_slots,
    mean_left_c,
    slot_line,
    surroundings,
    with_block,
)
from telemetry.frames import FloatArray, filled

EVERY = np.array([True])
ONE = np.zeros(1, dtype=np.intp)
NAN = float("nan")


def beside(ahead: float = 1.0) -> Surroundings:
    nothing = np.zeros(1)
    return Surroundings(ahead=np.array([ahead]), load=np.ones(1), unlike=nothing, spread=nothing)


def taught(rises_c: list[float], excesses_c: list[float], ahead: list[float] | None = None) -> SlotOffsets:
    offsets = filled(SlotOffsets, 1)
    for rise_c, excess_c, share in zip(rises_c, excesses_c, ahead or [1.0] * len(rises_c), strict=True):
        offsets = learn_slots(
            offsets,
            rise_c=np.array([rise_c]),
            excess_c=np.array([excess_c]),
            variance_c2=np.array([SCATTER_C**2]),
            around=beside(share),
            groups=ONE,
            where=EVERY,
            theta_k_per_w=np.array([0.1]),
        )
    return offsets


def offset_c(line: SlotLine, rise_c: float, ahead: float = 1.0) -> float:
    return float(line.offset_c(np.array([rise_c]), np.array([ahead]))[0])


def sd_c(line: SlotLine, rise_c: float, ahead: float = 1.0) -> float:
    return float(np.sqrt(line.variance_c2(np.array([rise_c]), np.array([ahead]))[0]))


def test_a_slot_that_was_not_learnt_adds_nothing_at_like_loads_and_may_add_what_slots_differ_by() -> None:
    line = slot_line(filled(SlotOffsets, 1))
    assert offset_c(line, 30.0) == pytest.approx(0.0)
    assert sd_c(line, 40.0) > 5.0  # ten kelvin are within two standard deviations


def test_constant_and_proportional_parts_are_reported_apart_where_the_load_changed() -> None:
    rises_c = [15.0, 20.0, 25.0, 30.0, 35.0] * 40
    line = slot_line(taught(rises_c, [2.0 + 0.03 * rise_c for rise_c in rises_c]))
    assert line.constant_c[0] == pytest.approx(2.0, abs=0.2)
    assert line.own[0] + line.air[0] == pytest.approx(0.03, abs=0.01)


def test_where_the_load_never_changed_the_offset_is_right_there_and_near_elsewhere() -> None:
    line = slot_line(taught([25.0] * 30, [2.5] * 30))
    assert offset_c(line, 25.0) == pytest.approx(2.5, abs=0.05)
    assert 1.2 < offset_c(line, 15.0) < 2.5  # between the same share of the rise and the same kelvin


@pytest.mark.parametrize("rise_c", [5.0, 20.0, 45.0])
def test_the_rise_without_its_slot_is_that_to_which_the_slot_adds(rise_c: float) -> None:
    line = slot_line(taught([15.0, 25.0, 35.0] * 20, [2.0 - 0.1 * rise for rise in (15.0, 25.0, 35.0)] * 20))
    shown_c, ahead = np.array([rise_c + offset_c(line, rise_c, 0.8)]), np.array([0.8])
    assert line.rise_without_c(shown_c, ahead)[0] == pytest.approx(rise_c)


def test_a_slot_that_would_take_all_heat_is_a_wrong_reading_and_stays_finite() -> None:
    line = slot_line(taught([10.0, 20.0, 40.0] * 200, [-10.0, -20.0, -40.0] * 200))
    assert abs(line.rise_without_c(np.array([20.0]), np.ones(1))[0]) < 60.0


def test_a_slot_is_sure_where_it_was_seen_and_unsure_elsewhere() -> None:
    line = slot_line(taught([25.0] * 30, [2.5] * 30))
    assert sd_c(line, 25.0) == pytest.approx(SCATTER_C / np.sqrt(30), rel=0.05)
    assert sd_c(line, 10.0) > 5 * sd_c(line, 25.0)
    both = slot_line(taught([25.0, 10.0] * 15, [2.5, 1.5] * 15))
    assert sd_c(both, 10.0) < SCATTER_C / np.sqrt(7)


def test_the_heat_of_the_others_is_apart_from_its_own_where_they_were_idle_for_a_while() -> None:
    # Ten kelvin of forty come from those in front of it, and are gone while these rest.
    alike = slot_line(taught([40.0] * 30, [10.0] * 30))
    assert sd_c(alike, 40.0, 0.1) > 1.5, "what idle neighbours take away was not seen"
    both = slot_line(taught([40.0] * 60, [10.0, 0.0] * 30, [1.0, 0.1] * 30))
    assert offset_c(both, 40.0, 1.0) == pytest.approx(10.0, abs=0.3)
    assert offset_c(both, 40.0, 0.1) == pytest.approx(0.0, abs=0.3)


def test_windows_that_are_not_known_teach_nothing_and_an_accepted_slot_starts_again() -> None:
    offsets = taught([25.0, NAN, 25.0], [2.5, 2.5, NAN])
    assert offsets.windows.tolist() == [1.0]
    again = accept_slots(offsets, EVERY)
    assert offset_c(slot_line(again), 25.0) == pytest.approx(0.0)
    assert again.load_windows.tolist() == offsets.load_windows.tolist()


def test_a_block_is_added_whole_or_not_at_all_and_shows_what_a_line_leaves_of_it() -> None:
    known, block = taught([30.0] * 20, [5.0] * 20), taught([30.0] * 3, [9.0] * 3)
    assert mean_left_c(block, slot_line(known))[0] == pytest.approx(4.0, abs=0.1)
    assert with_block(known, block, EVERY).windows.tolist() == [23.0]
    assert with_block(known, block, ~EVERY) == known or with_block(known, block, ~EVERY).windows.tolist() == [20.0]
    assert np.isnan(mean_left_c(filled(SlotOffsets, 1), slot_line(known))[0])


def loads(felt_w: list[float], usual_w: list[float] | None = None) -> Surroundings:
    groups = np.zeros(len(felt_w), dtype=np.intp)
    offsets = filled(SlotOffsets, len(felt_w))
    if usual_w is not None:
        offsets = learn_slots(
            offsets,
            rise_c=np.full(len(felt_w), 30.0),
            excess_c=np.zeros(len(felt_w)),
            variance_c2=np.full(len(felt_w), SCATTER_C**2),
            around=surroundings(offsets, np.array(usual_w), groups),
            groups=groups,
            where=np.ones(len(felt_w), dtype=np.bool_),
            theta_k_per_w=np.full(len(felt_w), 0.1),
        )
    return surroundings(offsets, np.array(felt_w), groups)


def test_others_at_the_same_load_give_as_much_heat_and_idle_or_lost_ones_hardly_any() -> None:
    assert loads([500.0, 500.0, 500.0]).ahead == pytest.approx(1.0)
    assert loads([500.0, 50.0, NAN]).ahead == pytest.approx([0.05, 0.5 / 0.1, 0.55 / 0.1], rel=0.01)


def test_neighbours_whose_loads_changed_beside_each_other_make_a_slot_unsure_until_they_are_learnt() -> None:
    before, after = [500.0, 500.0, 500.0, 50.0, 50.0], [500.0, 50.0, 50.0, 500.0, 500.0]
    rise_c = np.full(5, 40.0)
    assert np.sqrt(front_variance_c2(rise_c, loads(before, before)))[0] == pytest.approx(0.0, abs=0.1)
    assert np.sqrt(front_variance_c2(rise_c, loads(after, before)))[0] > 10.0
    assert np.sqrt(front_variance_c2(rise_c, loads(before)))[0] > 5.0, "nothing was learnt yet"


@pytest.mark.parametrize(
    ("felt_w", "level", "alike"),
    [
        ([500.0, 510.0, 490.0, 505.0], [True] * 4, True),
        ([500.0, 510.0, 490.0, 250.0], [True] * 4, False),
        ([500.0, 510.0, 490.0, 505.0], [True, True, True, False], False),  # a sink still warms
    ],
)
def test_loads_of_a_node_are_alike_where_all_work_the_same_and_have_settled(
    felt_w: list[float], level: list[bool], *, alike: bool
) -> None:
    found = is_alike(loads(felt_w), np.zeros(4, dtype=np.intp), level=np.array(level))
    assert found.tolist() == [alike] * 4


SLOTS_C = np.array([8.0, -1.0, -1.0, 8.0, 8.0, -1.0, -1.0, 8.0])
NODE = np.zeros(8, dtype=np.intp)


@pytest.mark.parametrize("change", [-0.4, 0.0, 0.5])
def test_fans_that_change_what_all_slots_add_show_on_the_others(change: float) -> None:
    found = flow_change(change * SLOTS_C, SLOTS_C, NODE)
    assert found == pytest.approx(np.full(8, change), abs=0.06)


def test_one_gpu_that_gets_worse_is_no_change_of_the_flow_for_itself() -> None:
    left_c: FloatArray = np.where(np.arange(8) == 3, 8.0, 0.0)
    assert flow_change(left_c, SLOTS_C, NODE)[3] == pytest.approx(0.0)
    assert np.abs(flow_change(left_c, SLOTS_C, NODE)).max() < 0.3


def changed_flow_c(slot_c: float, theta_k_per_w: float) -> float:
    offsets, rise_c = taught([30.0] * 20, [slot_c] * 20), np.array([30.0])
    error_c = flow_error_c(
        offsets, np.array([slot_c]), np.zeros(1), rise_c=rise_c, theta_k_per_w=np.array([theta_k_per_w])
    )
    return float(error_c[0])


def test_a_slot_is_unsure_where_fans_turn_otherwise_than_while_it_was_learnt() -> None:
    assert changed_flow_c(6.0, 0.1) == 0.0
    assert changed_flow_c(6.0, 0.07) == pytest.approx(1.6, abs=0.1)


def test_a_slot_that_adds_nothing_may_be_warm_air_that_a_good_sink_made_up_for() -> None:
    assert changed_flow_c(0.0, 0.1) == 0.0
    assert changed_flow_c(0.0, 0.07) == pytest.approx(0.6, abs=0.1)


def test_slots_that_are_alike_or_not_known_show_no_flow() -> None:
    assert np.abs(flow_change(np.ones(8), np.full(8, 0.3), NODE)).max() < 0.2
    assert flow_change(np.full(8, NAN), SLOTS_C, NODE).tolist() == [0.0] * 8
