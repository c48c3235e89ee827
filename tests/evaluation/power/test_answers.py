import math

import numpy as np
import pytest

from evaluation.power.answers import Answers, alarms, found_by, groups_of, judged_part, learning_part, threshold_for
from evaluation.power.cases import Case, Label
from evaluation.power.chains import START_NS, joined
from evaluation.power.plan import AnswerKind, PowerFault, Track
from telemetry.clock import NS_PER_S
from tests.evaluation.power.made_up import feed_chain

JOIN_S = 300.0


def answers_at(*seconds: float, entity: str = "", kind: AnswerKind = AnswerKind.NONE, score: float = 1.0) -> Answers:
    times = np.array([START_NS + round(second * NS_PER_S) for second in seconds], dtype=np.int64)
    return Answers(entity=entity, kind=kind, time_ns=times, score=np.full(len(times), score))


def case(*, by_name: bool = False) -> Case:
    fault = PowerFault.model_validate(
        {"track": "feeds", "put": "outage", "within": "60s", "names": ["lost"], "by_name": by_name}
    )
    label = Label(
        name="feed at 0 V",
        fault=fault,
        rows=slice(400, 600),
        place=1,
        targets=(frozenset(("", "feed1")),),
        begin_ns=START_NS + 400 * NS_PER_S,
        until_ns=START_NS + 460 * NS_PER_S,
        sigmas=9.0,
    )
    return Case(chain=feed_chain(), label=label)


def delay(*answers: Answers, threshold: float = 0.0) -> float | None:
    (found,) = found_by(answers, case(), threshold, join_s=JOIN_S)
    return found.delay_s


def test_answers_close_together_are_one_alarm_and_each_node_has_its_own() -> None:
    groups = groups_of([answers_at(0.0, 200.0, 900.0, entity="feed0"), answers_at(100.0, entity="feed1")], Track.FEEDS)
    assert alarms(groups, 0.0, join_s=JOIN_S) == 2
    nodes = groups_of([answers_at(0.0, entity="node_0"), answers_at(0.0, entity="node_1")], Track.NODES)
    assert alarms(nodes, 0.0, join_s=JOIN_S) == 2
    assert alarms(groups, 1.5, join_s=JOIN_S) == 0


def test_an_alarm_that_goes_on_counts_again_each_hour() -> None:
    standing = groups_of([answers_at(*range(0, 9000, 100))], Track.FEEDS)
    assert alarms(standing, 0.0, join_s=JOIN_S) == 3


@pytest.mark.parametrize("allowed", [0, 1, 2, 5])
def test_the_threshold_is_the_lowest_with_no_more_alarms_than_are_allowed(allowed: int) -> None:
    rng = np.random.default_rng(allowed)
    times = START_NS + np.arange(20_000) * NS_PER_S
    groups = [Answers(entity="", time_ns=times, score=rng.normal(size=20_000))]
    threshold = threshold_for(groups, allowed, join_s=JOIN_S)
    assert alarms(groups, threshold, join_s=JOIN_S) <= allowed
    lower = groups[0].score[groups[0].score < threshold].max()
    assert alarms(groups, float(lower), join_s=JOIN_S) > allowed


def test_a_method_whose_threshold_nothing_sets_reaches_none() -> None:
    assert threshold_for([], 0, join_s=JOIN_S) == math.inf


def test_a_fault_is_found_by_the_first_answer_in_its_time_about_who_has_it() -> None:
    assert delay(answers_at(405.0, 410.0, entity="feed1")) == 5.0
    assert delay(answers_at(405.0)) == 5.0
    assert delay(answers_at(405.0, entity="feed0")) is None
    assert delay(answers_at(399.0, entity="feed1")) is None
    assert delay(answers_at(461.0)) is None
    assert delay(answers_at(405.0), threshold=2.0) is None


def test_an_alarm_that_was_there_before_finds_nothing() -> None:
    assert delay(answers_at(390.0, 405.0)) is None
    assert delay(answers_at(50.0, 405.0)) == 5.0
    assert delay(answers_at(390.0, entity="feed0"), answers_at(405.0, entity="feed1")) == 5.0


def test_a_fault_is_named_by_an_accepted_kind() -> None:
    (named,) = found_by([answers_at(405.0, kind=AnswerKind.LOST)], case(), 0.0, join_s=JOIN_S)
    (other,) = found_by([answers_at(405.0, kind=AnswerKind.SAG)], case(), 0.0, join_s=JOIN_S)
    assert (named.named, other.named) == (True, False)
    (strict,) = found_by([answers_at(405.0, kind=AnswerKind.SAG)], case(by_name=True), 0.0, join_s=JOIN_S)
    assert strict.delay_s is None


def test_a_delay_does_not_count_the_pause_between_runs() -> None:
    trace = feed_chain(300).trace
    chain = feed_chain()
    both = joined([trace, trace], name="both", gap_s=86_400.0)
    label = case().label
    assert label is not None
    begin, end = int(both.time_ns[290]), int(both.time_ns[310])
    moved = Label(
        name="a",
        fault=label.fault,
        rows=slice(290, 600),
        place=1,
        targets=label.targets,
        begin_ns=begin,
        until_ns=end,
        sigmas=1.0,
    )
    one = Answers(entity="", time_ns=both.time_ns[305:306], score=np.ones(1))
    joined_chain = type(chain)(track=chain.track, half=chain.half, name="both", trace=both, learn_rows=100)
    (found,) = found_by([one], Case(chain=joined_chain, label=moved), 0.0, join_s=JOIN_S)
    assert found.delay_s == 15.0


def test_the_learning_part_and_the_judged_part_are_all_of_it() -> None:
    given = [answers_at(1.0, 2.0, 3.0)]
    first_ns = START_NS + 2 * NS_PER_S
    assert [len(one.time_ns) for one in (*learning_part(given, first_ns), *judged_part(given, first_ns))] == [1, 2]
