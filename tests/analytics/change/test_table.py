"""The change detectors over a table of series: which column changed, and from when on."""

import numpy as np
import pytest

from analytics.change.table import (
    ChangeMethod,
    ChangeScores,
    begin_changes,
    fit_changes,
    score_changes,
    unseen_change_scores,
)
from telemetry.frames import FloatArray

METHODS = tuple(ChangeMethod)
each = pytest.mark.parametrize("method", METHODS)


def table(seed: int, *, rows: int = 800, shift: float = 0.0, begins: int = 500) -> FloatArray:
    """Three columns, neighbours alike; the second one rises."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 1, (rows, 3))
    for row in range(1, rows):
        values[row] += 0.5 * values[row - 1]
    values[begins:, 1] += shift
    made: FloatArray = values * np.array([1.0, 30.0, 0.01]) + np.array([5.0, 400.0, 0.0])
    return made


def scored(method: ChangeMethod, healthy: FloatArray, rows: FloatArray, *, limit: float = np.inf) -> ChangeScores:
    model = fit_changes(method, healthy)
    return score_changes(model, begin_changes(model), rows, limit=limit)[1]


@each
def test_a_shift_is_found_in_its_column_and_units_do_not_matter(method: ChangeMethod) -> None:
    values = table(1, shift=6.0)
    limit = 1.5 * max(float(np.nanmax(block)) for block in unseen_change_scores(method, values[:400]))
    found = scored(method, values[:400], values[400:], limit=limit)
    alarms = np.flatnonzero(found.score > limit)
    assert any(100 <= row <= 220 and found.leading[row] == 1 for row in alarms)
    assert (alarms < 100).sum() <= 1
    scaled = scored(method, 1000.0 * values[:400], 1000.0 * values[400:], limit=limit)
    assert np.allclose(scaled.score, found.score)


@each
def test_rows_without_a_value_have_no_score_and_gaps_change_nothing(method: ChangeMethod) -> None:
    values = table(2)
    values[450:460] = np.nan
    found = scored(method, values[:400], values[400:])
    assert np.isnan(found.score[50:60]).all()
    assert (found.leading[50:60] == -1).all()
    assert np.isfinite(found.score[60:]).all()


@each
def test_a_sum_that_has_alarmed_begins_again(method: ChangeMethod) -> None:
    values = table(3, shift=8.0)
    free = scored(method, values[:400], values[400:])
    bound = scored(method, values[:400], values[400:], limit=5.0)
    assert np.nanmax(free.score) > np.nanmax(bound.score)
    assert (bound.score > 5.0).sum() < (free.score > 5.0).sum()


@each
def test_a_level_that_changed_for_good_alarms_once_or_twice_and_later_changes_are_found(method: ChangeMethod) -> None:
    values = table(4, rows=3000, shift=6.0)
    values[2500:, 0] += 6.0
    limit = 2.5 * max(float(np.nanmax(block)) for block in unseen_change_scores(method, values[:400]))
    found = scored(method, values[:400], values[400:], limit=limit)
    alarms = np.flatnonzero(found.score > limit)
    assert (found.leading[alarms] == 1).sum() in (1, 2)
    assert any(2100 <= row <= 2250 and found.leading[row] == 0 for row in alarms)


@each
def test_cutting_the_rows_elsewhere_returns_the_same_scores(method: ChangeMethod) -> None:
    values = table(5, shift=6.0)
    values[600:610] = np.nan
    model = fit_changes(method, values[:400])
    _, whole = score_changes(model, begin_changes(model), values[400:], limit=20.0)
    state, parts = begin_changes(model), []
    for first, last in ((400, 401), (401, 530), (530, 605), (605, 800)):
        state, part = score_changes(model, state, values[first:last], limit=20.0)
        parts.append(part.score)
    np.testing.assert_array_equal(np.concatenate(parts), whole.score)
