import math
from dataclasses import replace

import numpy as np
import pytest

from analytics.novelty.calibration import (
    MIN_HEALTHY_ROWS,
    AlarmBudget,
    kept_on_healthy,
    running_levels,
    running_threshold,
    unseen_scores,
)
from analytics.novelty.score import begin, fit, score_rows
from analytics.scoring.events import stretches
from telemetry.frames import FloatArray

BUDGET = AlarmBudget(per_1000_rows=1.0, join_rows=5)


def noise(rows: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (rows, 4)) @ rng.normal(0, 1, (4, 4)) + rng.standard_t(5, (rows, 4))


def heavy(rows: int, seed: int, *, scale: float = 0.3) -> FloatArray:
    """Scores with the tail of a power law, neighbours alike."""
    rng = np.random.default_rng(seed)
    return np.exp(np.repeat(rng.exponential(scale, -(-rows // 4)), 4)[:rows])


@pytest.mark.parametrize("budget", [1.0, 5.0])
def test_unseen_healthy_rows_stay_within_the_budget(budget: float) -> None:
    both = noise(24_000, 1)
    healthy, rows = both[:12_000], both[12_000:]
    allowed = replace(BUDGET, per_1000_rows=budget)
    level = allowed.threshold(np.concatenate(unseen_scores(healthy)))
    model = fit(healthy)
    _, scores = score_rows(model, begin(model, healthy), rows)
    alarms = len(stretches(scores.fresh_score > level, join_rows=5)) / 12
    assert 0.2 * budget < alarms <= budget


def test_the_bound_holds_in_nineteen_of_twenty_series_and_costs_little() -> None:
    truth = math.log(250.0) * 0.3  # one in 250 blocks of four rows is one in 1000 rows
    levels = np.log([replace(BUDGET, join_rows=0).threshold(heavy(4000, seed)) for seed in range(300)])
    assert 0.9 <= np.mean(levels >= truth) <= 0.99
    assert np.median(levels) < 1.5 * truth


def test_alarms_that_come_in_clusters_raise_the_bound() -> None:
    rng = np.random.default_rng(3)
    peaks = np.zeros(4000)
    places = np.concatenate([np.arange(first, first + 90, 15) for first in (300, 1700, 3300)])
    peaks[places] = rng.exponential(1.0, len(places)) + 3.0
    spread = np.zeros(4000)
    spread[np.linspace(100, 3900, len(places)).astype(int)] = peaks[places]
    quiet = rng.uniform(0, 0.5, 4000)
    assert BUDGET.threshold(np.exp(peaks + quiet)) > 1.1 * BUDGET.threshold(np.exp(spread + quiet))


def test_scores_come_from_a_model_that_did_not_see_the_rows() -> None:
    healthy = noise(2000, 2)
    healthy[1700] += 30
    unseen = np.concatenate(unseen_scores(healthy))
    model = fit(healthy)
    _, seen = score_rows(model, begin(model, healthy[:0]), healthy)
    assert len(unseen) == 2000
    assert unseen[1700] > seen.fresh_score[1700]


def test_a_smaller_budget_requires_a_higher_score_even_beyond_all_that_was_seen() -> None:
    scores = np.exp(np.random.default_rng(3).normal(0, 0.3, 1000))
    budgets = [AlarmBudget(per_1000_rows=rate, join_rows=0) for rate in (50, 10, 1, 0.1, 0.01)]
    levels = [budget.threshold(scores) for budget in budgets]
    assert levels == sorted(levels)
    assert levels[-1] > scores.max()
    assert len(stretches(scores > levels[0])) <= 50


def test_gaps_in_the_scores_raise_nothing() -> None:
    scores = np.exp(np.random.default_rng(4).normal(0, 0.3, 1000))
    gappy = np.insert(scores, np.arange(0, 1000, 100), np.nan)
    assert BUDGET.threshold(gappy) == BUDGET.threshold(scores)
    levels = running_levels(running_threshold((scores,), BUDGET), np.full(500, np.nan))
    assert (levels == levels[0]).all()


@pytest.mark.parametrize("drift", [1.0, 3.0])
def test_the_budget_holds_on_a_series_whose_scores_drift_away(drift: float) -> None:
    later = heavy(20_000, 6) * np.linspace(1.0, math.exp(drift), 20_000)
    levels = running_levels(running_threshold((heavy(3000, 5),), BUDGET), later)
    rate = BUDGET.alarms(later, levels)
    frozen = BUDGET.alarms(later, np.full(20_000, levels[0]))
    assert rate.per_1000_rows <= 1.0
    assert frozen.per_1000_rows > 3.0


def test_a_quiet_series_lowers_the_threshold_of_healthy_rows_that_were_not() -> None:
    before = heavy(2000, 7, scale=1.5)
    levels = running_levels(running_threshold((before,), BUDGET), heavy(6000, 8))
    assert levels[-1] < 0.2 * levels[0]


def test_alarms_beyond_the_budget_raise_the_threshold_and_quiet_rows_lower_it_again() -> None:
    state = running_threshold((heavy(3000, 9),), BUDGET)
    alarming = np.full(50, 1.0)
    alarming[10] = 1e6
    raised = state.after(alarming)
    assert raised.raised == pytest.approx(0.5 * (1 - 0.05))
    twice = raised.after(np.where(np.arange(50) == 3, 1e6, 1.0))
    assert twice.raised > raised.raised
    for _ in range(60):
        twice = twice.after(np.full(50, 1.0))
    assert twice.raised == 0.0
    joined = np.full(50, 1.0)
    joined[47] = 1e6
    again = state.after(joined).after(np.where(np.arange(50) == 2, 1e6, 1.0))
    assert again.raised == pytest.approx(0.5 * (1 - 0.1)), "two rows of one alarm count once"


def test_the_rate_on_healthy_rows_is_that_of_rows_behind_their_thresholds() -> None:
    blocks = tuple(heavy(1000, seed) for seed in range(4))
    kept = kept_on_healthy(blocks, BUDGET)
    assert kept.rows == 3000
    assert kept.low <= kept.per_1000_rows <= kept.high
    assert kept.per_1000_rows <= 1.0
    worse = kept_on_healthy((blocks[0], *(20.0 * block for block in blocks[1:])), BUDGET)
    assert worse.alarms > kept.alarms or worse.alarms >= 1


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="healthy rows"):
        unseen_scores(noise(MIN_HEALTHY_ROWS - 1, 6))
    with pytest.raises(ValueError, match="budget"):
        AlarmBudget(per_1000_rows=0, join_rows=0)
    with pytest.raises(ValueError, match="score"):
        BUDGET.threshold(np.full(5, np.nan))


def test_scores_that_never_differ_raise_nothing() -> None:
    levels = running_levels(running_threshold((np.ones(200),), BUDGET), np.ones(200))
    assert not (np.ones(200) > levels).any()
