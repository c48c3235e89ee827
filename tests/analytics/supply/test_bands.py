"""A path is compared within one band of load; a job of another pace is no rise."""

import numpy as np
import pytest

from analytics.supply.bands import LEAST_WINDOWS, MOST_WINDOWS, Bands
from telemetry.frames import FloatArray, filled

SLOW_HZ, FAST_HZ = 0.2, 10.0
# One real 12 V feed in both bands.
SLOW_OHM, FAST_OHM = 4.31e-3, 4.69e-3


def shown(bands: Bands, ohm: float, load_hz: float) -> tuple[Bands, float]:
    bands, found = bands.at_home(np.array([ohm]), np.array([load_hz]))
    return bands, float(found[0])


def taught(windows: int, ohm: float = FAST_OHM) -> tuple[Bands, list[float]]:
    """Return a path that was first seen under a slow load, after some windows of a fast one."""
    bands = filled(Bands, 1)
    for _ in range(10):
        bands, _ = shown(bands, SLOW_OHM, SLOW_HZ)
    found = []
    for _ in range(windows):
        bands, one = shown(bands, ohm, FAST_HZ)
        found.append(one)
    return bands, found


def test_a_faster_load_is_compared_once_its_band_is_learnt() -> None:
    _, found = taught(LEAST_WINDOWS + 4)
    assert np.isnan(found[:LEAST_WINDOWS]).all()
    assert found[LEAST_WINDOWS:] == pytest.approx([SLOW_OHM] * 4, rel=1e-6)


def test_within_a_decade_nothing_is_changed() -> None:
    bands, _ = taught(0)
    for load_hz in (SLOW_HZ / 9.0, SLOW_HZ * 9.0):
        bands, found = shown(bands, 1.3 * SLOW_OHM, load_hz)
        assert found == 1.3 * SLOW_OHM


def test_a_band_is_frozen_so_that_a_joint_that_ages_there_shows() -> None:
    bands, _ = taught(MOST_WINDOWS)
    for _ in range(3 * MOST_WINDOWS):
        bands, found = shown(bands, 1.2 * FAST_OHM, FAST_HZ)
    assert found == pytest.approx(1.2 * SLOW_OHM, rel=1e-6)


def test_more_than_a_band_explains_is_the_path() -> None:
    _, found = taught(LEAST_WINDOWS + 1, ohm=2.0 * SLOW_OHM)
    assert found[-1] == pytest.approx(2.0 * SLOW_OHM / 1.25, rel=1e-6)


def test_a_path_that_aged_is_compared_with_its_present_self() -> None:
    bands, _ = taught(0)
    for _ in range(40):
        bands, _ = shown(bands, 1.1 * SLOW_OHM, SLOW_HZ)
    for _ in range(LEAST_WINDOWS + 1):
        bands, found = shown(bands, 1.1 * FAST_OHM, FAST_HZ)
    assert found == pytest.approx(1.1 * SLOW_OHM, rel=0.01)


def test_windows_without_an_answer_change_nothing() -> None:
    bands, _ = taught(3)
    after, found = bands.at_home(np.array([np.nan]), np.array([np.nan]))
    assert after is bands
    assert np.isnan(found[0])


def test_paths_do_not_mix() -> None:
    bands = filled(Bands, 2)

    def both(load_hz: FloatArray) -> FloatArray:
        nonlocal bands
        bands, found = bands.at_home(np.full(2, SLOW_OHM), load_hz)
        return found

    both(np.full(2, SLOW_HZ))
    assert np.isnan(both(np.array([FAST_HZ, SLOW_HZ]))).tolist() == [True, False]
    assert bands.windows.tolist() == [[0.0, 1.0], [0.0, 0.0]]
