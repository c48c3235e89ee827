"""The error of a weighted sum is that of its errors, white or not."""

import numpy as np
import pytest

from analytics.supply.logged_pair import t_95
from analytics.supply.spectral_error import weighted_error
from telemetry.frames import FloatArray


def wandering(rng: np.random.Generator, size: int, memory: float) -> FloatArray:
    values = np.empty(size)
    values[0] = rng.normal() / np.sqrt(1.0 - memory**2)
    for place in range(1, size):
        values[place] = memory * values[place - 1] + rng.normal()
    return values


@pytest.mark.parametrize("memory", [0.0, 0.95])
@pytest.mark.parametrize("turn", [400, 20])
def test_the_variance_is_that_of_many_draws(memory: float, turn: int) -> None:
    rng = np.random.default_rng(3)
    load = np.where(np.arange(800) % turn < turn // 2, 1.0, -1.0)
    weights = load / float(load @ load)
    drawn = [wandering(rng, 800, memory) for _ in range(200)]
    true_variance = float(np.var([weights @ errors for errors in drawn]))
    claimed = np.mean([weighted_error(errors, weights, spent=2)[0] for errors in drawn])
    assert claimed == pytest.approx(true_variance, rel=0.35)


def test_few_errors_count_as_white() -> None:
    errors, weights = np.array([1.0, -1.0, 2.0, -2.0]), np.full(4, 0.5)
    assert weighted_error(errors, weights, spent=2) == (5.0, 2.0)


@pytest.mark.parametrize(("degrees", "point"), [(2.0, 4.303), (3.0, 3.182), (8.0, 2.306), (30.0, 2.042), (1e9, 1.96)])
def test_the_point_of_students_t_is_that_of_its_table(degrees: float, point: float) -> None:
    assert t_95(degrees) == pytest.approx(point, rel=0.01)
