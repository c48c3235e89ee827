import pytest

from evaluation.measures import (
    NOTHING,
    RankedProbabilities,
    brier_score,
    calibration_error,
    fitted_temperature,
    longest,
    median,
    rate,
    share,
)


def test_a_share_comes_with_the_exact_bounds_of_the_books() -> None:
    found = share(20, 20)
    assert found.value == 1.0
    assert found.low == pytest.approx(0.8316, abs=1e-4)  # 0.025 ** (1 / 20)
    assert found.high == 1.0


def test_no_false_alarm_in_300_node_months_bounds_the_rate() -> None:
    found = rate(0, 300.0)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(3.689 / 300.0, rel=1e-3)  # -ln 0.025


def test_nothing_to_measure_is_no_zero() -> None:
    assert share(0, 0) == rate(0, 0.0) == median([]) == longest([]) == brier_score([], []) == NOTHING


def test_a_median_lies_within_its_bounds_and_is_the_same_every_time() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    found = median(values)
    assert found.value == 3.0
    assert found.low is not None
    assert found.high is not None
    assert 1.0 <= found.low <= 3.0 <= found.high <= 100.0
    assert median(values) == found


def test_a_probability_that_is_right_has_no_calibration_error() -> None:
    reported, happened = [0.75] * 4, [True, True, True, False]
    assert calibration_error(reported, happened).value == pytest.approx(0.0)
    assert brier_score(reported, happened).value == pytest.approx(0.1875)
    assert calibration_error([1.0] * 4, happened).value == pytest.approx(0.25)


def fitted(*ranked: RankedProbabilities) -> float:
    value = fitted_temperature(ranked).value
    assert value is not None
    return value


SURE: RankedProbabilities = ((0.9, True), (0.08, False))
WRONG: RankedProbabilities = ((0.9, False), (0.08, True))


def test_probabilities_that_come_true_as_often_as_they_state_keep_their_temperature() -> None:
    assert fitted(*[SURE] * 90, *[WRONG] * 9) == pytest.approx(1.0, abs=0.1)


def test_too_bold_answers_ask_for_more_and_too_cautious_ones_for_less() -> None:
    assert fitted(*[SURE] * 7, *[WRONG] * 3) > 1.3
    cautious: RankedProbabilities = ((0.6, True), (0.4, False))
    assert fitted(*[cautious] * 50) < 0.5


def test_a_few_right_answers_do_not_prove_certainty() -> None:
    few, many = fitted(*[SURE] * 5), fitted(*[SURE] * 200)
    assert many < few
    assert many > 0.3


def test_an_answer_that_names_nothing_right_is_a_surprise_and_no_error() -> None:
    nothing: RankedProbabilities = ((0.9, False), (0.1, False))
    assert fitted(SURE, nothing) > fitted(SURE, SURE)
    assert fitted_temperature([]).value is None
