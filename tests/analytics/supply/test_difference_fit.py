"""Resistance of mains from differences: drift and jumps of other loads cost certainty and no truth."""

import numpy as np
import pytest

from analytics.supply.difference_fit import DifferenceFit, difference_fit
from analytics.supply.logged_pair import t_95
from telemetry.frames import FloatArray

OHM = 0.12


def feed(seed: int, *, jobs: int = 30, usual_a: float = 10.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a feed of mains that wander by volts and jump with other loads, with a job that starts now and then."""
    rng = np.random.default_rng(seed)
    size = 900
    amps = usual_a * (0.6 + np.repeat(rng.uniform(0.0, 0.8, jobs), size // jobs)) + rng.normal(
        0.0, 0.002 * usual_a, size
    )
    mains = 238.0 + np.cumsum(rng.normal(0.0, 0.02, size)) + 3.0 * np.sin(np.arange(size) / 150.0)
    mains += np.cumsum(np.where(rng.uniform(size=size) < 0.01, rng.normal(0.0, 0.3, size), 0.0))
    return np.arange(size, dtype=np.float64), np.round(mains - OHM * amps, 2), np.round(amps, 3)


def fitted(seed: int, *, usual_a: float = 10.0) -> DifferenceFit:
    found = difference_fit(*feed(seed, usual_a=usual_a))
    assert found is not None
    return found


def test_bounds_hold_the_truth_where_levels_are_wrong_by_factors() -> None:
    found = [fitted(seed) for seed in range(100)]
    held = [abs(one.slope_ohm - OHM) < t_95(one.degrees) * one.slope_sd_ohm for one in found]
    assert 90 <= sum(held) <= 100
    assert np.median([abs(one.slope_ohm / OHM - 1.0) for one in found]) < 0.05
    levels = [-float(np.polyfit(amps, volts, 1)[0]) for _, volts, amps in (feed(seed) for seed in range(100))]
    assert np.median(np.abs(np.array(levels) / OHM - 1.0)) > 0.5


@pytest.mark.parametrize("usual_a", [2.5, 15.0])
def test_what_counts_as_a_step_is_a_share_of_the_usual_current(usual_a: float) -> None:
    found = fitted(1, usual_a=usual_a)
    assert found.least_a == pytest.approx(0.03 * usual_a, rel=0.3)
    assert 20 <= found.steps <= 40


def test_few_steps_or_a_gap_show_nothing() -> None:
    times, volts, amps = feed(2)
    assert difference_fit(times[:25], volts[:25], amps[:25]) is None
    # Rows that are absent around every step, as where an analyser changes its range.
    step = np.abs(np.diff(amps, prepend=amps[0])) > 0.2
    around = step | np.roll(step, 1) | np.roll(step, -1)
    assert difference_fit(times[~around], volts[~around], amps[~around]) is None
