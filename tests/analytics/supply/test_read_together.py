"""Supplies read at one moment follow the load together; those read in turn do not."""

import numpy as np
import pytest

from analytics.supply.read_together import ReadTogether
from telemetry.frames import FloatArray, filled

GROUPS = np.array([0, 0, 1, 1, 1])


def after(*blocks: FloatArray) -> list[bool]:
    state = filled(ReadTogether, len(GROUPS))
    for unlike in blocks:
        state = state.after_block(unlike)
    return [bool(one) for one in state.levels_count(GROUPS)]


STILL = np.full(5, np.nan)
TOGETHER = np.full(5, 0.01)
IN_TURN = np.array([0.01, 0.02, 0.9, 1.0, 0.4])


def test_levels_count_where_nothing_moved_or_all_moved_together() -> None:
    assert after(STILL, STILL) == [True] * 5
    assert after(TOGETHER, STILL, TOGETHER) == [True] * 5


def test_the_block_in_which_currents_part_does_not_count_on_their_bus_and_one_alone_is_forgotten() -> None:
    assert after(TOGETHER, IN_TURN) == [True, True, False, False, False]
    assert after(IN_TURN, STILL) == [True] * 5


@pytest.mark.parametrize("n_still", [0, 1, 100])
def test_meters_read_in_turn_stay_so_while_the_load_stands_still(n_still: int) -> None:
    assert after(IN_TURN, IN_TURN, *[STILL] * n_still) == [True, True, False, False, False]


def test_a_load_that_all_follow_again_makes_levels_count_again() -> None:
    assert after(IN_TURN, IN_TURN, *[TOGETHER] * 20) == [True] * 5
