import numpy as np
import pytest

from analytics.novelty.score import MIN_ROWS, NoveltyScores, begin, fit, score_rows
from telemetry.frames import FloatArray


def healthy_rows(rows: int = 1500, *, seed: int = 1) -> FloatArray:
    """Power, a temperature that follows it, a fan that does not, and a counter that never moves."""
    rng = np.random.default_rng(seed)
    power_w = 300 + 80 * np.sign(np.sin(np.arange(rows) / 9.0)) + rng.normal(0, 5, rows)
    temp_c = np.zeros(rows)
    for row in range(rows):
        temp_c[row] = 0.9 * temp_c[row - 1] + 0.1 * (30 + power_w[row] / 10) if row else 60.0
    return np.stack(
        [power_w, temp_c + rng.normal(0, 0.2, rows), 0.4 + rng.normal(0, 0.01, rows), np.zeros(rows)], axis=1
    )


def scored(rows: FloatArray, *, learnt: FloatArray | None = None) -> NoveltyScores:
    healthy = healthy_rows() if learnt is None else learnt
    model = fit(healthy)
    return score_rows(model, begin(model, healthy), rows)[1]


def test_healthy_rows_stay_near_one() -> None:
    score = scored(healthy_rows(seed=2)).score
    assert 0.2 < np.median(score) < 2
    assert score.max() < 5


def test_columns_that_stop_moving_together_are_new_though_each_keeps_its_range() -> None:
    rows = healthy_rows(seed=3)
    rows[800:900, 1] = rows[800:900, 1][::-1].mean() + (rows[800:900, 1].mean() - rows[800:900, 1]) * 3
    score = scored(rows)
    assert score.flag_score[800:860].max() > 3 * score.flag_score[600:800].max()
    assert score.leading[805] in (0, 1)


@pytest.mark.parametrize("column", [0, 1, 2, 3])
def test_the_column_that_broke_leads(column: int) -> None:
    rows = healthy_rows(seed=4)
    rows[700:, column] += 40 * np.array([5, 0.6, 0.01, 1])[column]
    score = scored(rows)
    assert score.flag_score[700:705].max() > 2 * score.flag_score[100:700].max()
    assert score.leading[704] == column


def test_what_moves_in_an_unusual_way_at_a_usual_level_is_new() -> None:
    rng = np.random.default_rng(5)
    learnt = np.cumsum(rng.normal(0, 1, (3000, 1)), axis=0) * 0 + np.sin(np.arange(3000) / 40)[:, None]
    learnt += rng.normal(0, 0.01, learnt.shape)
    rows = learnt[:1000].copy()
    rows[500:540] = rng.choice(rows[:200].ravel(), (40, 1))
    score = scored(rows, learnt=learnt)
    assert score.score[500:540].max() > 5 * score.score[300:500].max()


def test_cutting_the_rows_elsewhere_returns_the_same_scores() -> None:
    rows = healthy_rows(seed=6)
    rows[100:140, 2] = np.nan
    rows[300] = np.nan
    model = fit(healthy_rows())
    whole_state, whole = score_rows(model, begin(model, rows[:0]), rows)
    state, parts = begin(model, rows[:0]), []
    for first, last in ((0, 1), (1, 1), (1, 130), (130, 301), (301, 1500)):
        state, part = score_rows(model, state, rows[first:last])
        parts.append(part)
    for name in ("score", "flag_score", "fresh_score", "leading"):
        np.testing.assert_allclose(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    np.testing.assert_allclose(state.levels, whole_state.levels)


def test_a_level_that_changed_for_good_is_fresh_for_some_rows_and_unusual_for_ever() -> None:
    rows = healthy_rows(3000, seed=12)
    rows[1000:, 1] += 60.0
    score = scored(rows)
    usual = np.quantile(score.fresh_score[:1000], 0.99)
    assert score.fresh_score[1000:1010].max() > 10 * usual
    assert np.quantile(score.fresh_score[1300:], 0.95) < 3 * usual
    assert np.median(score.flag_score[1300:]) > 3 * usual
    rows[2000:2020, 2] += 0.4
    again = scored(rows).fresh_score
    assert again[2000:2010].max() > 3 * np.quantile(again[1300:2000], 0.99)


def test_one_column_is_judged_by_its_shape_over_dozens_of_rows() -> None:
    rng = np.random.default_rng(13)
    wave = np.sin(np.arange(4000) / 6.0)[:, np.newaxis] + rng.normal(0, 0.3, (4000, 1))
    rows = wave[2000:].copy()
    rows[1000:1060] = rng.permutation(rows[1000:1060])  # values and their spread stay, the shape is gone
    model = fit(wave[:2000])
    assert model.shape is not None
    assert model.shape.n_rows == 48
    score = score_rows(model, begin(model, wave[:2000]), rows)[1].score
    assert score[1000:1080].max() > 1.5 * np.quantile(score[100:1000], 0.99)
    assert fit(np.repeat(wave[:2000], 2, axis=1)).shape is None


def test_gaps_are_evidence_neither_for_nor_against() -> None:
    rows = healthy_rows(seed=7)
    plain = scored(rows)
    rows[500:700, 1] = np.nan
    rows[900:950] = np.nan
    gappy = scored(rows)
    assert np.isnan(gappy.score[900:950]).all()
    assert (gappy.leading[900:950] == -1).all()
    assert np.isfinite(gappy.score[:900]).all()
    assert np.nanmax(gappy.flag_score[500:1500]) < 2 * plain.flag_score[500:1500].max()


def test_a_column_that_dies_for_good_leaves_the_others_watched() -> None:
    rows = healthy_rows(seed=11)
    rows[300:, 1] = np.nan
    rows[900:, 2] += 0.4
    score = scored(rows)
    assert score.flag_score[300:900].max() < 10
    assert score.flag_score[900:905].max() > 20
    assert score.leading[904] == 2


def test_rows_are_not_written_to_and_the_same_rows_have_the_same_scores() -> None:
    healthy, rows = healthy_rows(), healthy_rows(seed=8)
    rows[3, 2] = np.nan
    before = (healthy.copy(), rows.copy())
    first, second = scored(rows, learnt=healthy), scored(rows, learnt=healthy)
    np.testing.assert_array_equal(first.score, second.score)
    np.testing.assert_array_equal(healthy, before[0])
    np.testing.assert_array_equal(rows, before[1])


def test_units_do_not_matter() -> None:
    factor = np.array([1000.0, 0.001, 100.0, 1.0])
    rows = healthy_rows(seed=9)
    plain = scored(rows).score
    np.testing.assert_allclose(scored(rows * factor, learnt=healthy_rows() * factor).score, plain, rtol=1e-6)


def test_the_order_of_columns_does_not_matter() -> None:
    order, rows = [2, 0, 3, 1], healthy_rows(seed=10)
    swapped = scored(rows[:, order], learnt=healthy_rows()[:, order])
    plain = scored(rows)
    np.testing.assert_allclose(swapped.score, plain.score, rtol=1e-6)
    assert np.mean(np.array(order)[swapped.leading] == plain.leading) > 0.99


def test_constant_rows_and_wild_rows_have_finite_scores() -> None:
    constant = np.full((200, 3), 12.0)
    assert np.isfinite(scored(constant, learnt=constant).score).all()
    wild = constant.copy()
    wild[100] = 1e300
    wild[150] = np.inf
    score = scored(wild, learnt=constant)
    assert np.isfinite(score.score[np.arange(200) != 150]).all()
    assert score.score[100] > 10 * score.score[99]


def test_too_few_rows_and_empty_columns_are_misuse() -> None:
    with pytest.raises(ValueError, match="healthy rows"):
        fit(np.zeros((MIN_ROWS - 1, 2)))
    with pytest.raises(ValueError, match="column 1"):
        fit(np.stack([np.arange(100.0), np.full(100, np.nan)], axis=1))
