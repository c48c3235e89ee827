import pytest

from evaluation.judgement.temperature import Answer, fitted_temperature


def fitted(*answers: Answer) -> float:
    value = fitted_temperature(answers).value
    assert value is not None
    return value


SURE: Answer = ((0.9, True), (0.08, False))
WRONG: Answer = ((0.9, False), (0.08, True))


def test_probabilities_that_come_true_as_often_as_they_state_keep_their_temperature() -> None:
    assert fitted(*[SURE] * 90, *[WRONG] * 9) == pytest.approx(1.0, abs=0.1)


def test_too_bold_answers_ask_for_more_and_too_cautious_ones_for_less() -> None:
    assert fitted(*[SURE] * 7, *[WRONG] * 3) > 1.3
    cautious: Answer = ((0.6, True), (0.4, False))
    assert fitted(*[cautious] * 50) < 0.5


def test_a_few_right_answers_do_not_prove_certainty() -> None:
    few, many = fitted(*[SURE] * 5), fitted(*[SURE] * 200)
    assert many < few
    assert many > 0.3


def test_an_answer_that_names_nothing_right_is_a_surprise_and_no_error() -> None:
    nothing: Answer = ((0.9, False), (0.1, False))
    assert fitted(SURE, nothing) > fitted(SURE, SURE)
    assert fitted_temperature([]).value is None
