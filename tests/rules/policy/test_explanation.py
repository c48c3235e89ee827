"""Policies in words: when, then, bounds, ends, ladder, and the source of each number."""

from dataclasses import replace

from rules.conditions.document import parse_condition
from rules.limits.node import NodeLimits
from rules.policy.explanation import explain_policy
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass, Budget, Policy, PolicyStatus
from rules.policy.sourced_numbers import thresholds_of
from telemetry.records import Mode

POLICIES = {policy.id: policy for policy in load_builtin_policies()}
INTERFACE = POLICIES["thermal-interface-clock-cap"]
NOTIFY = POLICIES["gpu-lost-notify"]


def reported(policy: Policy, *others: Policy, limits: NodeLimits | None = None) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for about, sentence in explain_policy(policy, (policy, *others), limits or NodeLimits()):
        texts.setdefault(about, []).append(sentence)
    return texts


def test_every_builtin_policy_is_explained_whole() -> None:
    for policy in POLICIES.values():
        texts = reported(policy, *(other for other in POLICIES.values() if other is not policy))
        assert {"why", "when", "then", "within", "ends", "source"} <= set(texts)
        assert all(sentence.strip() for sentences in texts.values() for sentence in sentences)


def test_a_condition_is_reported_by_its_facts() -> None:
    texts = reported(INTERFACE)
    assert texts["when"] == [
        "cause is thermal_interface and excess_c at least 8",
        "and that has lasted 2s without a break",
    ]
    either = replace(NOTIFY, when=parse_condition({"any": [{"cause": ["hang", "gpu_lost"]}, {"severity": "critical"}]}))
    assert reported(either)["when"] == ["cause is one of gpu_lost, hang", "severity is critical"]
    assert reported(replace(NOTIFY, when=parse_condition({})))["when"] == ["any incident is open"]
    numbers = {"minimum_v": "< 11.4", "dips": "2..3", "code": 79}
    ranges = replace(NOTIFY, when=parse_condition({"score": "> 0.5", "numbers": numbers}))
    assert reported(ranges)["when"] == [
        "score above 0.5 and code is 79 and dips at least 2 and at most 3 and minimum_v below 11.4"
    ]
    assert reported(replace(NOTIFY, status=PolicyStatus.DEPRECATED))["when"][0] == "never: it is deprecated"


def test_bounds_are_those_of_the_policy_and_of_the_rails() -> None:
    limits = NodeLimits(
        modes={ActionClass.CLOCK_CAP: Mode.ENFORCE}, approval=frozenset({ActionClass.CLOCK_CAP}), actions_per_hour=2
    )
    budgeted = replace(INTERFACE, then=replace(INTERFACE.then, budget=Budget(actions=3, per_s=86_400.0, gpus_max=2)))
    within = reported(budgeted, limits=limits)["within"]
    assert within == [
        "mode in force: enforce",
        "its class is in limits.approval: an operator must approve each time",
        "its budget: 3 new actions in 1d, at most 2 GPUs at once; steps of a cap in force do not count",
        "limit of the node: 2 new actions of its class an hour",
        "cooldown after an action: 5m on the same entity",
    ]
    assert reported(INTERFACE)["within"][0] == "mode in force: observe, so nothing is changed"


def test_a_ladder_is_reported_from_its_lowest_rung() -> None:
    middle = replace(NOTIFY, id="middle", after="gpu-lost-notify")
    top = replace(NOTIFY, id="top", after="middle")
    texts = reported(middle, NOTIFY, top)["ladder"]
    assert texts == [
        "only once the symptom check of gpu-lost-notify has failed on the same incident",
        "gpu-lost-notify -> middle -> top",
    ]
    assert "ladder" not in reported(NOTIFY)


def test_a_ladder_in_a_circle_is_reported_and_ends() -> None:
    one, other = replace(NOTIFY, id="one", after="other"), replace(NOTIFY, id="other", after="one")
    assert reported(one, other)["ladder"][0].startswith("only once")


def test_each_number_stands_with_the_source_that_names_it() -> None:
    found = {item.key: item for item in thresholds_of(INTERFACE)}
    assert set(found) == {"when.numbers.excess_c", "then.clock.fraction"}
    assert all(item.sources for item in found.values())
    bare = replace(INTERFACE, source=("0.851 and 10.85, 8 000 of them",))
    assert [item.sources for item in thresholds_of(bare)] == [(), ()]
    assert "then.clock.fraction 0.85: no line of its source names this number" in reported(bare)["source"]
    percent = replace(INTERFACE, source=("85 % of the clock",))
    assert {item.key: bool(item.sources) for item in thresholds_of(percent)} == {
        "when.numbers.excess_c": False,
        "then.clock.fraction": True,
    }
    ranked = replace(NOTIFY, when=parse_condition({"severity": "warning+"}))
    assert thresholds_of(ranked) == (), "a severity is no number"
