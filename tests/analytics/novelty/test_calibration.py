import numpy as np
import pytest

from analytics.novelty.calibration import MIN_HEALTHY_ROWS, p_value, threshold_for, unseen_scores
from analytics.novelty.score import begin, fit, score_rows
from analytics.scoring.events import stretches
from telemetry.frames import FloatArray


def noise(rows: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (rows, 4)) @ rng.normal(0, 1, (4, 4)) + rng.standard_t(5, (rows, 4))


@pytest.mark.parametrize("budget", [1.0, 5.0])
def test_unseen_healthy_rows_stay_within_the_budget(budget: float) -> None:
    healthy = noise(12_000, 1)
    rng = np.random.default_rng(1)
    rows = rng.normal(0, 1, (12_000, 4)) @ rng.normal(0, 1, (4, 4)) * 0
    both = noise(24_000, 1)
    healthy, rows = both[:12_000], both[12_000:]
    level = threshold_for(unseen_scores(healthy), alarms_per_1000_rows=budget, join_rows=5)
    model = fit(healthy)
    _, scores = score_rows(model, begin(model, healthy), rows)
    alarms = len(stretches(scores.flag_score > level, join_rows=5)) / 12
    assert 0.4 * budget < alarms < 2 * budget


def test_scores_come_from_a_model_that_did_not_see_the_rows() -> None:
    healthy = noise(2000, 2)
    healthy[1700] += 30
    unseen = np.concatenate(unseen_scores(healthy))
    model = fit(healthy)
    _, seen = score_rows(model, begin(model, healthy[:0]), healthy)
    assert len(unseen) == 2000
    assert unseen[1700] > seen.flag_score[1700]


def test_a_smaller_budget_requires_a_higher_score_even_beyond_all_that_was_seen() -> None:
    blocks = (np.exp(np.random.default_rng(3).normal(0, 0.3, 1000)),)
    levels = [threshold_for(blocks, alarms_per_1000_rows=budget, join_rows=0) for budget in (50, 10, 1, 0.1, 0.01)]
    assert levels == sorted(levels)
    assert levels[-1] > blocks[0].max()
    assert len(stretches(blocks[0] > levels[0])) <= 50


def test_gaps_in_the_scores_raise_nothing() -> None:
    scores = np.exp(np.random.default_rng(4).normal(0, 0.3, 1000))
    gappy = np.insert(scores, np.arange(0, 1000, 100), np.nan)
    assert threshold_for((gappy,), alarms_per_1000_rows=10, join_rows=0) == pytest.approx(
        threshold_for((scores,), alarms_per_1000_rows=10, join_rows=0), rel=0.05
    )


def test_p_values_of_healthy_scores_are_uniform_and_never_zero() -> None:
    rng = np.random.default_rng(5)
    healthy = rng.normal(0, 1, 999)
    p = p_value(rng.normal(0, 1, 20_000), healthy)
    assert np.mean(p <= 0.1) == pytest.approx(0.1, abs=0.03)
    assert p_value(np.array([1e9, np.nan]), healthy)[0] == pytest.approx(1 / 1000)
    assert np.isnan(p_value(np.array([np.nan]), healthy)).all()


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="healthy rows"):
        unseen_scores(noise(MIN_HEALTHY_ROWS - 1, 6))
    with pytest.raises(ValueError, match="budget"):
        threshold_for((np.ones(5),), alarms_per_1000_rows=0, join_rows=0)
    with pytest.raises(ValueError, match="budget"):
        threshold_for((np.full(5, np.nan),), alarms_per_1000_rows=1, join_rows=0)
