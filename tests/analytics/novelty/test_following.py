import numpy as np

from analytics.novelty.following import begin_following, follow_rows
from analytics.novelty.score import fit
from telemetry.frames import FloatArray
from tests.analytics.novelty.test_score import healthy_rows


def followed(rows: FloatArray, *, cuts: tuple[int, ...] = ()) -> FloatArray:
    healthy = healthy_rows()
    model = fit(healthy)
    state, parts = begin_following(model, healthy), []
    for part in np.split(rows, cuts):
        state, fresh = follow_rows(model, state, part)
        parts.append(fresh)
    return np.concatenate(parts)


def shifted(size: float, *, rows: int = 3000) -> FloatArray:
    made = healthy_rows(rows, seed=20)
    made[1000:, 1] += size
    return made


def test_a_column_whose_level_changed_for_good_is_judged_from_its_new_level() -> None:
    plain, rows = followed(healthy_rows(3000, seed=20))[100:], shifted(60.0)
    fresh = followed(rows)
    assert fresh[1000:1010].max() > 100 * plain.max()
    np.testing.assert_allclose(np.quantile(fresh[1400:], 0.99), np.quantile(plain[1400:], 0.99), rtol=0.5)
    rows[2000:2020, 1] += 5.0
    rows[2500:2520, 2] += 0.2
    again = followed(rows)
    for first in (2000, 2500):
        assert again[first : first + 10].max() > 2 * plain.max(), "a fault on top of the new level is found"


def test_a_column_that_comes_back_is_judged_from_its_old_level() -> None:
    rows = shifted(60.0, rows=4000)
    rows[2000:, 1] -= 60.0
    fresh = followed(rows)
    assert fresh[2000:2010].max() > 100 * np.quantile(fresh[1400:2000], 0.99)
    assert np.quantile(fresh[2500:], 0.99) < 10


def test_levels_that_healthy_stretches_had_move_nothing() -> None:
    healthy = healthy_rows()
    model = fit(healthy)
    state, _ = follow_rows(model, begin_following(model, healthy), healthy_rows(2000, seed=21))
    assert (state.offset == 0.0).all()
    state, _ = follow_rows(model, begin_following(model, healthy), shifted(60.0))
    assert abs(state.offset[1] - 60.0) < 10.0
    assert (state.offset[[0, 2, 3]] == 0.0).all()


def test_cutting_the_rows_elsewhere_returns_the_same_scores() -> None:
    rows = shifted(60.0)
    rows[1500:1540, 2] = np.nan
    rows[1700] = np.nan
    np.testing.assert_allclose(followed(rows, cuts=(1, 2, 65, 1003, 1211, 1700, 1701)), followed(rows))


def test_a_column_that_dies_moves_nothing_and_hides_nothing() -> None:
    rows = shifted(60.0)
    rows[900:, 2] = np.nan
    fresh = followed(rows)
    assert np.isfinite(fresh).all()
    assert np.quantile(fresh[1400:], 0.99) < 10
