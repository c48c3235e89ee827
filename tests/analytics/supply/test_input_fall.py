import numpy as np
import pytest

from analytics.connectivity import GroupArray
from analytics.supply.input_fall import MIN_BLOCKS, MIN_ROWS, InputFall, after_block, fall_rows, forget
from analytics.supply.pair_rows import PairRows
from telemetry.frames import FloatArray, filled

BOTH: GroupArray = np.array([0, 0])
ALONE: GroupArray = np.array([0, 1])


def ended(fall: InputFall, mean_v: float | FloatArray, groups: GroupArray, *, identified: bool = False) -> InputFall:
    return after_block(fall, np.full(2, mean_v), np.full(2, identified), groups, sag_v=0.10, clear_v=0.05)


def fall_row(fall: InputFall, volts: FloatArray, amps: FloatArray, groups: GroupArray) -> InputFall:
    used = np.ones((1, 2), dtype=np.bool_)
    row = PairRows(time_ns=(0,), places=(0,), voltage_v=volts[np.newaxis], current_a=amps[np.newaxis], used=used)
    return fall_rows(fall, row, groups)


def in_turn(fall: InputFall, volts: FloatArray, amps: FloatArray, turn: int) -> InputFall:
    """Run a row in which one supply was read, and the other shows what it showed."""
    used = (np.arange(2) == turn)[np.newaxis]
    row = PairRows(time_ns=(0,), places=(0,), voltage_v=volts[np.newaxis], current_a=amps[np.newaxis], used=used)
    return fall_rows(fall, row, BOTH)


def after(rows: list[tuple[FloatArray, FloatArray]], *, usual_v: float, groups: GroupArray) -> InputFall:
    """Run a block of a training job at a voltage, then some rows."""
    fall = filled(InputFall, 2)
    for amps in (30.0, 60.0, 30.0, 60.0):
        fall = fall_row(fall, np.full(2, usual_v), np.full(2, amps), groups)
    fall = ended(fall, usual_v, groups)
    for volts, amps_now in rows:
        fall = fall_row(fall, volts, amps_now, groups)
    return fall


def rows(volts: float, other_v: float, amps: float, *, count: int = MIN_ROWS) -> list[tuple[FloatArray, FloatArray]]:
    return [(np.array([volts, other_v]), np.full(2, amps))] * count


def test_a_dip_of_every_supply_at_the_same_power_is_the_inputs() -> None:
    assert after(rows(10.0, 10.1, 60.0), usual_v=12.0, groups=BOTH).fallen.all()
    assert not after(rows(10.0, 10.1, 60.0, count=MIN_ROWS - 1), usual_v=12.0, groups=BOTH).fallen.any()


@pytest.mark.parametrize(
    ("volts", "other_v", "amps"),
    [
        (10.0, 10.1, 90.0),  # the load grew: it is the path
        (10.0, 12.0, 60.0),  # one supply alone
        (11.7, 11.7, 60.0),  # within what a supply regulates to
        (0.4, 0.4, 0.0),  # switched off
    ],
)
def test_what_is_no_dip_of_the_mains(volts: float, other_v: float, amps: float) -> None:
    assert not after(rows(volts, other_v, amps), usual_v=12.0, groups=BOTH).fallen.any()


def test_a_regulated_output_dips_by_less_than_mains_do() -> None:
    assert after(rows(11.5, 11.55, 60.0), usual_v=12.0, groups=BOTH).fallen.all()
    assert not after(rows(215.0, 215.0, 60.0), usual_v=230.0, groups=BOTH).fallen.any()


def test_a_supply_that_carries_nothing_any_more_was_lost_and_its_siblings_fell_with_it() -> None:
    lost = [(np.full(2, 11.5), np.array([0.0, 115.0]))] * MIN_ROWS
    assert not after(lost, usual_v=12.0, groups=BOTH).fallen.any()


def test_supplies_that_are_read_in_turn_are_compared_by_their_newest_readings() -> None:
    fall = after([], usual_v=12.0, groups=BOTH)
    shown_v = [np.array([11.4, 12.0])] + [np.full(2, 11.4)] * (2 * MIN_ROWS)
    for turn, volts in enumerate(shown_v):
        fall = in_turn(fall, volts, np.full(2, 60.0), turn % 2)
    assert fall.fallen.all()
    assert fall.low_v[np.isfinite(fall.low_v)].tolist() == []


def test_mains_are_compared_with_mains_and_outputs_with_outputs() -> None:
    fall = filled(InputFall, 2)
    for amps in (30.0, 60.0):
        fall = fall_row(fall, np.array([230.0, 12.0]), np.array([amps / 20, amps]), BOTH)
    fall = ended(fall, np.array([230.0, 12.0]), BOTH)
    for _ in range(MIN_ROWS):
        fall = fall_row(fall, np.array([150.0, 12.0]), np.array([4.0, 60.0]), BOTH)
    assert fall.fallen.tolist() == [True, False]


def test_a_load_step_whose_current_is_read_later_than_its_voltage_does_not_add_up_to_a_dip() -> None:
    fall = after([], usual_v=12.0, groups=BOTH)
    for _ in range(3 * MIN_ROWS):
        fall = fall_row(fall, np.full(2, 11.5), np.full(2, 60.0), BOTH)
        fall = fall_row(fall, np.full(2, 11.5), np.full(2, 90.0), BOTH)
    assert not fall.fallen.any()


def test_what_is_usual_outlasts_a_block_between_two_steps_of_the_load() -> None:
    fall = after([], usual_v=12.0, groups=BOTH)
    for _ in range(2):
        fall = ended(fall_row(fall, np.full(2, 12.2), np.full(2, 30.0), BOTH), 12.2, BOTH)
    assert (fall.usual_v < 12.1).all()
    assert (fall.usual_w > 600.0).all()


def test_the_only_supply_of_a_node_reports_at_the_voltage_of_mains_and_not_on_a_rail() -> None:
    assert not after(rows(10.0, 10.0, 60.0), usual_v=12.0, groups=ALONE).fallen.any()
    assert after(rows(195.0, 195.0, 60.0), usual_v=230.0, groups=ALONE).fallen.all()


def test_a_dip_is_never_learnt_and_is_over_when_the_voltage_is_back() -> None:
    fall = ended(after(rows(195.0, 195.0, 60.0), usual_v=230.0, groups=BOTH), 228.0, BOTH)
    assert fall.usual_v.tolist() == [230.0, 230.0]
    fall = fall_row(fall, np.full(2, 229.0), np.full(2, 50.0), BOTH)
    assert not fall.fallen.any()
    assert fall.back.all()


def test_a_dip_that_ends_within_its_block_is_not_learnt_either() -> None:
    fall = ended(after(rows(10.0, 10.1, 60.0) + rows(11.8, 11.9, 60.0), usual_v=12.0, groups=BOTH), 11.95, BOTH)
    assert fall.usual_v.tolist() == [11.8, 11.9]


def test_what_is_usual_is_learnt_again_where_a_person_accepted_other_mains() -> None:
    fall = after(rows(195.0, 195.0, 60.0), usual_v=230.0, groups=BOTH)
    assert fall.fallen.all()
    fall = forget(fall, np.array([True, False]))
    assert fall.fallen.tolist() == [False, True]
    assert np.isnan(fall.usual_v[0])


def lower(volts: float, amps: float, *, groups: GroupArray = BOTH, blocks: int = MIN_BLOCKS) -> InputFall:
    """Run a usual block at 54 V and then blocks at a lower voltage."""
    fall = after([], usual_v=54.0, groups=groups)
    for _ in range(blocks):
        for volts_now, amps_now in rows(volts, volts, amps):
            fall = fall_row(fall, volts_now, amps_now, groups)
        fall = ended(fall, volts, groups)
    return fall


def test_a_fall_of_some_per_cent_at_the_same_power_is_the_inputs_after_two_blocks() -> None:
    assert lower(52.7, 61.0).fallen.all()
    assert not lower(52.7, 61.0, blocks=1).fallen.any()
    assert lower(52.7, 61.0, blocks=100).usual_v.tolist() == [54.0, 54.0]


@pytest.mark.parametrize(("volts", "amps"), [(53.7, 60.0), (52.7, 80.0), (0.0, 0.0)])
def test_a_small_fall_a_larger_load_and_a_node_that_is_off_are_no_fall_of_the_input(volts: float, amps: float) -> None:
    assert not lower(volts, amps).fallen.any()


def test_a_fall_while_the_path_is_identified_is_left_to_its_resistance() -> None:
    fall = lower(52.7, 61.0, blocks=1)
    for _ in range(10):
        fall = ended(fall, 52.7, BOTH, identified=True)
    assert not fall.fallen.any()


def test_one_supply_alone_that_falls_by_some_per_cent_may_have_a_bad_contact() -> None:
    assert not lower(52.7, 61.0, groups=ALONE).fallen.any()


def test_a_fall_is_over_when_the_mean_is_back() -> None:
    fall = ended(lower(52.7, 61.0), 53.9, BOTH)
    assert not fall.fallen.any()
    assert fall.back.all()
