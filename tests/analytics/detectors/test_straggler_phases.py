from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.detectors.straggler_phases import PhaseCounts, RunningPhases
from telemetry.frames import FloatArray, MaskArray, filled

# Rows of one step, long enough that an update, one row, is a twentieth of it.
_STEP_ROWS = 20
_WORK_ROWS = 10
_N_STEPS = 15


def steps(*, begins: int = 0, ends: int = 0) -> MaskArray:
    """Return phases of four GPUs ``(n_rows, 4)``; the first begins and ends so many rows after the others."""
    at = np.arange(_N_STEPS * _STEP_ROWS)[:, np.newaxis] % _STEP_ROWS - 5
    first = np.arange(4) == 0
    high: MaskArray = (at >= begins * first) & (at < _WORK_ROWS + ends * first)
    return high


def counted(high: MaskArray, *cuts: int) -> PhaseCounts:
    """Count the rows in parts, each row another value of the sensors."""
    running, groups = filled(RunningPhases, high.shape[1]), np.zeros(high.shape[1], dtype=np.intp)
    power_w: FloatArray = np.where(high, 300.0, 100.0) + np.arange(len(high), dtype=np.float64)[:, np.newaxis] % 7
    bounds = [0, *cuts, len(high)]
    for start, stop in pairwise(bounds):
        rows = high[start:stop]
        running = running.add(rows, np.ones_like(rows), groups)
        running = running.with_updates(power_w[max(start - 1, 0) : stop], np.full(high.shape[1], 200.0))
    return running.counts


def lateness_rows(high: MaskArray) -> float:
    """Return by how many rows of each step the first GPU is late."""
    return float(counted(high).lateness[0]) * _STEP_ROWS


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_an_end_after_the_others_is_late_by_its_rows(rows: int) -> None:
    assert lateness_rows(steps(ends=rows)) == pytest.approx(rows)


@pytest.mark.parametrize("rows", [-4, -2, -1, 1, 2, 4])
def test_a_sensor_that_shows_begin_and_end_later_or_earlier_alike_is_not_late(rows: int) -> None:
    assert lateness_rows(steps(begins=rows, ends=rows)) <= 1e-9


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_a_middle_that_is_too_low_makes_it_late_by_an_update_at_most(rows: int) -> None:
    assert lateness_rows(steps(begins=-rows, ends=rows)) <= 1.1


@pytest.mark.parametrize("rows", [1, 2])
def test_a_straggler_whose_sensor_lags_is_late_by_its_work_alone(rows: int) -> None:
    assert lateness_rows(steps(begins=rows, ends=rows + 2)) == pytest.approx(2)


def test_a_gpu_that_stops_before_the_others_is_early() -> None:
    assert lateness_rows(steps(ends=-3)) == pytest.approx(-3)


@given(st.lists(st.integers(1, _N_STEPS * _STEP_ROWS - 1), max_size=6, unique=True), st.integers(-4, 4))
def test_counts_are_the_same_however_the_rows_are_cut(cuts: list[int], rows: int) -> None:
    high = steps(begins=-rows, ends=rows)
    whole, cut = counted(high), counted(high, *sorted(cuts))
    for name in PhaseCounts.__dataclass_fields__:
        values: FloatArray = getattr(cut, name)
        assert values.tolist() == getattr(whole, name).tolist(), name


def test_counts_fade_and_add_up() -> None:
    one = counted(steps(ends=2))
    twice = one.plus(one, fade=0.5)
    assert twice.seen.tolist() == (1.5 * one.seen).tolist()
    assert twice.lateness[0] == pytest.approx(one.lateness[0])
