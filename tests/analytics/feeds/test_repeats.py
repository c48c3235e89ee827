"""Readings that repeat exactly: by chance, by a coarse meter, or because the meter sticks."""

import numpy as np
import pytest

from analytics.feeds.repeats import Repeats
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, filled


def stuck_rows(readings: FloatArray) -> list[int]:
    """Return the rows of one value in which it counts as stuck."""
    state, found = filled(Repeats, 1), []
    for row, reading in enumerate(readings.tolist()):
        values = np.array([[reading, np.nan, np.nan]])
        state = state.after(row * NS_PER_S, values, np.isfinite(values))
        if state.stuck.any():
            found.append(row)
    return found


def noisy(rows: int, *, step: float, sd: float, seed: int = 3) -> FloatArray:
    return step * np.round((206.0 + sd * np.random.default_rng(seed).standard_normal(rows)) / step)


@pytest.mark.parametrize("sd", [0.02, 0.05, 0.3])
def test_a_meter_that_sticks_is_found_within_thirty_readings(sd: float) -> None:
    readings = noisy(600, step=0.01, sd=sd)
    assert not stuck_rows(readings)
    readings[300:] = readings[299]
    assert 300 <= stuck_rows(readings)[0] <= 330


def test_forty_readings_are_enough_to_know_a_meter_that_hardly_ever_repeats() -> None:
    readings = noisy(100, step=0.01, sd=0.3)
    readings[40:] = readings[39]
    assert 40 <= stuck_rows(readings)[0] <= 55


def test_a_coarse_meter_that_toggles_and_then_lies_still_is_no_fault() -> None:
    readings = noisy(900, step=1.0, sd=0.4)
    readings[400:] = readings[399]
    assert not stuck_rows(readings)


def test_a_meter_that_shows_nothing_is_off_and_not_stuck() -> None:
    readings = noisy(600, step=0.01, sd=0.05)
    readings[300:] = 0.0
    assert not stuck_rows(readings)


def test_what_repeats_often_by_nature_needs_a_longer_repetition() -> None:
    slow = np.repeat(noisy(120, step=0.01, sd=0.05), 10)
    assert not stuck_rows(slow)
