import numpy as np
import pytest

from analytics.heat.excess import Levels, add_ratio, doubt, forget
from telemetry.frames import FloatArray, filled

SURE, UNSURE = 0.02**2, 0.2**2


def levels_of(*windows: tuple[float, float]) -> Levels:
    """Return the levels after windows of a ratio and its variance."""
    levels = filled(Levels, 1)
    for ratio, variance in windows:
        levels = add_ratio(levels, np.array([ratio]), np.array([variance]), quick_share=0.4, slow_share=0.02)
    return levels


def chance(levels: Levels) -> FloatArray:
    return doubt(levels, levels.quick_weight)


def test_a_window_that_knows_little_hardly_moves_a_level() -> None:
    known = [(0.0, SURE)] * 10
    assert levels_of(*known, (0.5, UNSURE)).quick[0] < 0.01
    assert levels_of(*known, (0.5, SURE)).quick[0] > 0.19


def test_windows_that_know_little_report_together_what_one_does_not() -> None:
    one, many = levels_of((0.2, UNSURE / 4)), levels_of(*[(0.2, UNSURE / 4)] * 60)
    assert chance(one)[0] > 0.2
    assert doubt(many, many.slow_weight)[0] < 0.1


def test_a_step_does_not_hide_itself() -> None:
    after = levels_of(*[(0.0, SURE)] * 20, (0.16, SURE), (0.16, SURE))
    assert after.quick[0] > max(0.08, chance(after)[0])


def test_windows_that_scatter_beyond_what_they_should_count_for_less() -> None:
    rng = np.random.default_rng(5)
    calm = levels_of(*[(float(ratio), SURE) for ratio in rng.normal(0.0, 0.02, 40)])
    wild = levels_of(*[(float(ratio), SURE) for ratio in rng.normal(0.0, 0.08, 40)])
    assert chance(wild)[0] > 1.5 * chance(calm)[0]


@pytest.mark.parametrize(("ratio", "variance"), [(float("nan"), SURE), (0.3, float("nan"))])
def test_what_is_not_known_leaves_the_levels_alone(ratio: float, variance: float) -> None:
    before, after = levels_of((0.1, SURE)), levels_of((0.1, SURE), (ratio, variance))
    assert (after.quick, after.slow, after.windows) == (before.quick, before.slow, before.windows)


def test_a_level_without_windows_is_uncertain() -> None:
    assert np.isinf(chance(filled(Levels, 2))).all()
    assert np.isinf(chance(forget(levels_of((0.1, SURE)), np.array([True])))).all()
