"""Two stories of decisions beside each other."""

from dataclasses import replace

from evaluation.policy_trial import SAME_NS, TrialDecision, pair_decisions
from rules.policy.model import Verb
from telemetry.clock import NS_PER_S
from telemetry.records import Verdict


def answer(
    at_s: float, *, policy: str = "cap", setting: float | None = 1000.0, targets: tuple[str, ...] = ("a",)
) -> TrialDecision:
    return TrialDecision(
        time_ns=round(at_s * NS_PER_S),
        policy_id=policy,
        action=Verb.CLOCK_CAP,
        targets=targets,
        setting=setting,
        verdict=Verdict.EXECUTE,
        reason="",
    )


def output(would: list[TrialDecision], was: list[TrialDecision]) -> list[str]:
    return [row.difference for row in pair_decisions(would, was)]


def test_the_same_story_twice_differs_in_nothing() -> None:
    story = [answer(0), answer(1, setting=900.0), answer(2, targets=("b",))]
    assert output(story, story) == ["", "", ""]


def test_what_is_on_one_side_only_stands_at_its_time() -> None:
    rows = list(pair_decisions([answer(100)], [answer(0)]))
    assert [(row.time_ns, row.difference) for row in rows] == [
        (0, "would not be done"),
        (100 * NS_PER_S, "was not done"),
    ]


def test_another_setting_another_reach_and_a_refusal_are_differences() -> None:
    assert output([answer(0, setting=900.0)], [answer(0)]) == ["900 instead of 1000"]
    assert output([answer(0, setting=1000.4)], [answer(0)]) == [""]
    assert output([answer(0, targets=("a", "b"))], [answer(0)]) == ["other targets (1)"]
    refused = replace(answer(0), verdict=Verdict.REFUSE)
    assert output([refused], [answer(0)]) == ["would be refused"]
    assert output([answer(0)], [refused]) == ["was refused"]


def test_only_what_is_near_in_time_on_the_same_entity_and_of_the_same_action_is_one_answer() -> None:
    late = replace(answer(0), time_ns=SAME_NS + 1)
    assert len(output([answer(0)], [late])) == 2
    assert len(output([answer(0)], [answer(0, targets=("b",))])) == 2
    assert len(output([answer(0)], [replace(answer(0), action=Verb.NOTIFY)])) == 2


def test_of_several_answers_that_of_the_same_policy_comes_first_and_each_is_taken_once() -> None:
    was = [answer(0, policy="other"), answer(3, policy="cap")]
    rows = list(pair_decisions([answer(1, policy="cap"), answer(2, policy="mine")], was))
    pairs = [(row.would and row.would.policy_id, row.was and row.was.policy_id) for row in rows]
    assert pairs == [("cap", "cap"), ("mine", "other")]
