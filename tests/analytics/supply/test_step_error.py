"""Steps of a meter move a slope by chance, as far as the levels of the load allow."""

import numpy as np
import pytest

from analytics.supply.step_error import step_variance
from telemetry.frames import FloatArray

OHM, STEP_V = 0.005, 0.063


def slopes(levels_a: FloatArray, noise_v: float) -> tuple[float, float]:
    """Return the error of slopes over open-circuit voltages and resistances within a fifth, and what is claimed."""
    rng = np.random.default_rng(2)
    amps = rng.choice(levels_a, 400) if len(levels_a) < 50 else rng.uniform(levels_a[0], levels_a[-1], 400)
    about = amps - amps.mean()
    found, claimed = [], []
    for _ in range(200):
        ohm = OHM * rng.uniform(0.8, 1.2)
        volts = 12.0 + rng.uniform(0.0, STEP_V) - ohm * amps + rng.normal(0.0, noise_v, 400)
        stepped = np.round(volts / STEP_V) * STEP_V
        found.append(-float(about @ stepped) / float(about @ about) - ohm)
        claimed.append(step_variance(stepped - stepped.mean(), about, slope_ohm=OHM, step_v=STEP_V, step_a=0.0))
    return float(np.sqrt(np.mean(np.square(found)))), float(np.sqrt(np.mean(claimed)))


@pytest.mark.parametrize("levels", [(10.0, 30.0), (10.0, 25.0, 60.0)])
def test_few_levels_err_by_what_is_claimed(levels: tuple[float, ...]) -> None:
    found, claimed = slopes(np.array(levels), 1e-4)
    assert claimed == pytest.approx(found, rel=0.35)


def test_a_load_of_all_levels_and_noise_of_a_step_average_it_out() -> None:
    two = slopes(np.array([10.0, 30.0]), 1e-4)[1]
    assert slopes(np.linspace(10.0, 90.0, 60), 1e-4)[1] < 0.1 * two
    assert slopes(np.array([10.0, 30.0]), STEP_V)[1] < 0.1 * two


def test_without_steps_or_a_load_there_is_none() -> None:
    flat = np.zeros(50)
    assert step_variance(flat, np.linspace(-1.0, 1.0, 50), slope_ohm=OHM, step_v=0.0, step_a=0.0) == 0.0
    assert step_variance(flat, flat, slope_ohm=OHM, step_v=STEP_V, step_a=0.0) == 0.0
