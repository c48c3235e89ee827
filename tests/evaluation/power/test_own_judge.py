from evaluation.power.answers import Answers, found_by
from evaluation.power.cases import Case, chain_cases
from evaluation.power.own_judge import own_answers
from evaluation.power.plan import AnswerKind, load_plan
from tests.evaluation.power.made_up import feed_chain

JOIN_S = 300.0


def plain(answers: list[Answers]) -> list[tuple[str, str, list[int]]]:
    return sorted((one.entity, one.kind.value, one.time_ns.tolist()) for one in answers)


def wanted(*names: str) -> list[Case]:
    chain = feed_chain(500)
    cases = list(chain_cases(chain, load_plan(), draws=1))
    return [case for case in cases if case.label is None or case.label.name in names]


def test_a_case_has_the_answers_that_it_has_by_itself() -> None:
    """The judge of a chain goes on from where each fault begins; alone, it judges the case from its first row."""
    cases = wanted("feed at 0 V", "meter of a feed stuck")
    together = own_answers(cases[0].chain, cases, join_s=JOIN_S)
    assert len(together) == len(cases) == 3
    for case, answers in zip(cases, together, strict=True):
        (alone,) = own_answers(case.chain, [case], join_s=JOIN_S)
        assert plain(alone) == plain(answers)


def test_a_feed_at_no_volts_is_found_and_named_and_a_healthy_chain_is_quiet() -> None:
    cases = wanted("feed at 0 V")
    for case, answers in zip(cases, own_answers(cases[0].chain, cases, join_s=JOIN_S), strict=True):
        if case.label is None:
            assert answers == []
            continue
        (found,) = found_by(answers, case, 0.0, join_s=JOIN_S)
        assert found.named
        assert found.delay_s is not None
        assert found.delay_s <= 10.0
        assert {one.kind for one in answers} >= {AnswerKind.LOST}


def test_a_sag_that_is_over_before_the_next_rows_come_is_an_answer() -> None:
    cases = [case for case in wanted("sag of 6 % for 2 s") if case.label is not None]
    (answers,) = own_answers(cases[0].chain, cases, join_s=JOIN_S)
    (found,) = found_by(answers, cases[0], 0.0, join_s=JOIN_S)
    assert found.named
    assert found.delay_s is not None
    assert found.delay_s <= 3.0
