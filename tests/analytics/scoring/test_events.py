import numpy as np
import pytest

from analytics.scoring.events import add, score_events, stretches, threshold_at
from telemetry.frames import MaskArray


def mask(text: str) -> MaskArray:
    return np.array([letter != "." for letter in text])


def test_runs_and_what_lies_between_them() -> None:
    assert stretches(mask("xx..x...x")).tolist() == [[0, 1], [4, 4], [8, 8]]
    assert stretches(mask("xx..x...x"), join_rows=2).tolist() == [[0, 4], [8, 8]]
    assert stretches(mask("....")).tolist() == []
    assert stretches(mask("")).tolist() == []


def test_a_hand_counted_case() -> None:
    #             0123456789012345678901
    truth = mask("...####.....####....##")
    flags = mask(".x...x.x..x....x......")
    score = score_events(flags, truth, join_rows=0)
    assert (score.events, score.found, score.alarms, score.true_alarms) == (3, 2, 5, 2)
    assert score.delays_rows == (2, 3)
    assert score.recall == pytest.approx(2 / 3)
    assert score.precision == pytest.approx(2 / 5)
    assert score.f1 == pytest.approx(0.5)


def test_an_alarm_that_stood_before_the_event_has_found_nothing() -> None:
    score = score_events(mask("xxxxxxxxxx"), mask("......###."), join_rows=0)
    assert (score.found, score.true_alarms, score.f1) == (0, 0, 0.0)


def test_one_right_row_does_not_make_the_others_right() -> None:
    truth = mask("....######....")
    one = score_events(mask(".....x........"), truth, join_rows=0)
    assert (one.found, one.alarms) == (1, 1)
    flapping = score_events(mask("x.x..x......x."), truth, join_rows=0)
    assert flapping.precision == pytest.approx(1 / 4)


def test_an_early_alarm_counts_where_that_is_allowed() -> None:
    truth, flags = mask("....###.."), mask("..x......")
    assert score_events(flags, truth, join_rows=0, early_rows=1).found == 0
    early = score_events(flags, truth, join_rows=0, early_rows=2)
    assert (early.found, early.delays_rows) == (1, (0,))


def test_without_events_or_alarms_there_is_no_share() -> None:
    assert np.isnan(score_events(mask("..x."), mask("...."), join_rows=0).recall)
    assert np.isnan(score_events(mask("...."), mask("..x."), join_rows=0).precision)
    assert score_events(mask("...."), mask("..x."), join_rows=0).f1 == 0.0


def test_series_add_up() -> None:
    one = score_events(mask("..x."), mask("..##"), join_rows=0)
    both = add((one, score_events(mask("x..."), mask("..##"), join_rows=0)))
    assert (both.events, both.found, both.alarms, both.false_alarms, both.delays_rows) == (2, 1, 2, 1, (0,))


def test_a_threshold_spends_its_false_alarms_and_no_more() -> None:
    rng = np.random.default_rng(1)
    scores, truth = rng.normal(0, 1, 4000), np.zeros(4000, dtype=np.bool_)
    for allowed in (0, 3, 20):
        level = threshold_at(scores, truth, false_alarms=allowed, join_rows=0)
        assert score_events(scores > level, truth, join_rows=0).false_alarms <= allowed
    assert score_events(scores > level, truth, join_rows=0).false_alarms >= 15
