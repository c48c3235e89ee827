"""Properties of the table and the score that hold whatever was observed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.classification.answers import FAULT_CLASS_GUIDES
from analytics.classification.classes import CONTRADICTIONS, PRIORS
from analytics.classification.score import DEFAULT_WEIGHTS, GAINS, OWNERS, Weights, _extras, _scores, _softmax, classify
from analytics.classification.sign import Observation, Sign
from analytics.classification.table import ROWS
from telemetry.records import FaultClass

ROW = {row.sign: row for row in ROWS}
SEEN = st.lists(
    st.builds(
        Observation,
        sign=st.sampled_from(Sign),
        present=st.booleans(),
        since_ns=st.integers(0, 1000),
        text=st.just("seen"),
    ),
    max_size=12,
    unique_by=lambda one: one.sign,
)


def scores_of(observed: list[Observation], weights: Weights = DEFAULT_WEIGHTS) -> dict[FaultClass, float]:
    return _scores(observed, _extras(observed, weights))


def probabilities(observed: list[Observation], weights: Weights = DEFAULT_WEIGHTS) -> dict[FaultClass, float]:
    return _softmax(scores_of(observed, weights), weights.temperature)


def supports(sign: Sign, cause: FaultClass) -> bool:
    """Return True if the sign raises this class, and no other more."""
    gains = {other: GAINS[True][sign][other] for other in PRIORS}
    return gains[cause] > 0 and all(gains[cause] >= gain for gain in gains.values())


def test_every_sign_has_one_row_every_class_an_answer_and_every_number_a_source() -> None:
    assert sorted(row.sign for row in ROWS) == sorted(Sign)
    assert set(PRIORS) == set(FAULT_CLASS_GUIDES) == set(FaultClass)
    assert sum(PRIORS.values()) == pytest.approx(1.0)
    for row in ROWS:
        assert len({cause for cause, _, _ in row.given}) == len(row.given)
        for value, source in (row.otherwise, *((value, source) for _, value, source in row.given)):
            assert 0.0 < value < 1.0
            assert source


def test_every_class_but_unknown_has_a_sign_of_its_own() -> None:
    for cause in PRIORS:
        has_own = any(OWNERS[sign] is cause for sign in Sign)
        assert has_own is (cause is not FaultClass.UNKNOWN), cause


def test_no_sign_speaks_for_a_class_and_contradicts_it() -> None:
    for clash in CONTRADICTIONS:
        for cause in clash.against:
            assert GAINS[clash.present][clash.sign][cause] <= 0.0, (clash.sign, cause)


@given(seen=SEEN, temperature=st.floats(0.2, 5.0))
def test_probabilities_add_up_to_one_and_are_ranked(seen: list[Observation], temperature: float) -> None:
    weights = Weights(temperature=temperature)
    assert sum(probabilities(seen, weights).values()) == pytest.approx(1.0)
    hypotheses = classify(seen, weights)
    assert sum(one.probability for one in hypotheses) == pytest.approx(1.0)
    shares = [one.probability for one in hypotheses]
    assert shares == sorted(shares, reverse=True)
    assert len({one.cause for one in hypotheses}) == len(hypotheses)


@given(seen=SEEN, since_ns=st.integers(0, 1000), data=st.data())
def test_evidence_for_a_class_never_lowers_it(seen: list[Observation], since_ns: int, data: st.DataObject) -> None:
    pairs = [(sign, cause) for sign in Sign for cause in PRIORS if supports(sign, cause)]
    sign, cause = data.draw(st.sampled_from(pairs))
    before = [one for one in seen if one.sign is not sign]
    after = [*before, Observation(sign=sign, present=True, since_ns=since_ns, text="more", entity_id="")]
    # What came first is a statement about all signs together, so it is left out here.
    weights = Weights(precedence=0.0)
    assert scores_of(after, weights)[cause] >= scores_of(before, weights)[cause]
    assert probabilities(after, weights)[cause] >= probabilities(before, weights)[cause] - 1e-12


@given(seen=SEEN)
def test_the_order_in_which_signs_are_given_does_not_matter(seen: list[Observation]) -> None:
    one, other = probabilities(seen), probabilities(seen[::-1])
    assert all(one[cause] == pytest.approx(other[cause]) for cause in PRIORS)


def test_without_any_sign_the_answer_is_the_priors() -> None:
    assert probabilities([], Weights(temperature=1.0)) == pytest.approx(PRIORS)
    assert classify([])[0].cause is FaultClass.UNKNOWN


def test_evidence_that_came_first_weighs_more() -> None:
    def seen(*, link_first: bool) -> list[Observation]:
        links = Observation(
            sign=Sign.LINKS_OF_ONE, present=True, since_ns=0 if link_first else 9, text="links", entity_id=""
        )
        hang = Observation(sign=Sign.NO_PROGRESS, present=True, since_ns=5, text="hang", entity_id="")
        return [links, hang]

    first, last = scores_of(seen(link_first=True)), scores_of(seen(link_first=False))
    assert first[FaultClass.LOOSE_MODULE] - last[FaultClass.LOOSE_MODULE] == pytest.approx(Weights().precedence)
    assert last[FaultClass.HANG] - first[FaultClass.HANG] == pytest.approx(Weights().precedence)


def test_a_contradiction_costs_what_its_weight_states_and_is_reported() -> None:
    seen = [Observation(sign=Sign.DISAGREES, present=True, since_ns=0, text="P and V I disagree", entity_id="")]
    mild, hard = scores_of(seen, Weights(contradiction=0.0)), scores_of(seen, Weights(contradiction=2.0))
    assert mild[FaultClass.JOINT_AGEING] - hard[FaultClass.JOINT_AGEING] == pytest.approx(2.0)
    assert mild[FaultClass.SENSOR_FAULT] == hard[FaultClass.SENSOR_FAULT]


def test_a_gain_is_the_logarithm_of_the_odds_that_the_table_states() -> None:
    row = ROW[Sign.LINKS_OF_ONE]
    given_by = dict.fromkeys(PRIORS, row.otherwise[0]) | {cause: value for cause, value, _ in row.given}
    others = sum(PRIORS[one] * given_by[one] for one in PRIORS if one is not FaultClass.LOOSE_MODULE)
    others /= 1.0 - PRIORS[FaultClass.LOOSE_MODULE]
    gain = GAINS[True][Sign.LINKS_OF_ONE][FaultClass.LOOSE_MODULE]
    assert gain == pytest.approx(row.weight * math.log(given_by[FaultClass.LOOSE_MODULE] / others))


def test_a_temperature_flattens_and_keeps_the_order() -> None:
    seen = [Observation(sign=Sign.LINK_ERRORS, present=True, since_ns=0, text="links", entity_id="")]
    sharp, flat = classify(seen, Weights(temperature=0.5)), classify(seen, Weights(temperature=3.0))
    assert sharp[0].cause is flat[0].cause
    assert sharp[0].probability > flat[0].probability
    with pytest.raises(ValueError, match="temperature"):
        Weights(temperature=0.0)
