"""Error of a slope from the steps of its meter, against slopes of stepped values."""

import numpy as np
import pytest

from analytics.supply.rounding import slope_error

STEP_V, OHM = 0.0625, 0.005


def slopes(swing_a: float, noise_v: float, *, n: int = 400) -> tuple[float, float, float]:
    """Return mean error bound, scatter of slopes and their bias, over supplies with their levels anywhere in a step."""
    rng = np.random.default_rng(3)
    amps = 40.0 + np.where(np.arange(400) % 2 == 0, 0.0, swing_a)
    found, bounds = [], []
    for _ in range(n):
        volts = rng.uniform(11.0, 13.0) - OHM * amps + rng.normal(0.0, noise_v, len(amps))
        volts = np.round(volts / STEP_V) * STEP_V
        slope = -np.polyfit(amps, volts, 1)[0]
        found.append(slope)
        scatter = np.std(volts + slope * amps)
        bounds.append(float(slope_error(np.array([STEP_V]), np.array([np.std(amps)]), np.array([scatter]))[0]))
    return float(np.mean(bounds)), float(np.std(found)), float(np.mean(found))


@pytest.mark.parametrize("swing_a", [10.0, 20.0, 40.0, 80.0])
def test_two_levels_without_noise_err_as_stated(swing_a: float) -> None:
    bound, scatter, mean = slopes(swing_a, 1e-4)
    assert mean == pytest.approx(OHM, rel=0.1)
    assert scatter < 1.05 * bound
    assert bound == pytest.approx(STEP_V / 2.0 / swing_a, rel=0.05)


def test_noise_as_large_as_a_step_leaves_no_such_error() -> None:
    bound, scatter, mean = slopes(40.0, STEP_V)
    assert bound < 1e-6
    assert mean == pytest.approx(OHM, rel=0.02)
    assert scatter < 0.1 * OHM


@pytest.mark.parametrize("step", [np.nan, 0.0])
def test_a_meter_whose_step_is_not_known_has_none(step: float) -> None:
    assert slope_error(np.array([step]), np.array([10.0]), np.array([0.01])) == [0.0]
