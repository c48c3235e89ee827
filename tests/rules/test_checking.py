"""Checks of policies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rules.checking import OPEN_OR_MITIGATED, Complaint, Flaw, check_policies, describe_met, met_together
from rules.conditions.document import parse_condition
from rules.policy.case_document import CaseDocument
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass, Budget, Policy, PolicyStatus, SettingRule
from telemetry.records import Cause, Mode


@pytest.mark.parametrize(
    "conditions",
    [
        ({"cause": "hang"}, {"cause": "gpu_lost"}),
        ({"severity": "info"}, {"severity": "warning+"}),
        ({"state": "closed"},),
        ({"numbers": {"minimum_v": "> 11.4"}}, {"numbers": {"minimum_v": "<= 11.4"}}),
        ({"affected_count": "> 1"}, {"affected_count": "< 2"}),
        ({"entity_kind": "gpu", "entity_id": "supply:psu0"},),
        ({"silenced": True}, {"silenced": False}),
        ({"numbers": {"dips": 2}}, {"numbers": {"dips": 3}}),
        ({"root_cause": "hang"}, {"root_cause": "airflow"}),
        ({"confidence": "> 0.5"}, {"confidence": "< 0.4"}),
        ({"any": [{"cause": "hang"}, {"cause": "airflow"}]}, {"cause": "gpu_lost"}),
    ],
)
def test_no_open_incident_meets_conditions_that_exclude_each_other(conditions: tuple[dict[str, Any], ...]) -> None:
    assert met_together(*map(parse_condition, conditions)) == ()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"silenced": True},
        {"root_cause": "joint_ageing", "confidence": "> 0.9"},
        {"loss_probability": ">= 0.2", "age_s": "> 30"},
        {"gpu": {"clock_mhz": "< 1000"}, "supply": {"minimum_v": "< 11.4"}, "node": {"gpu_count": 4}},
        {"numbers": {"minimum_v": "11.3..11.4"}},
        {"cause": ["supply_sag", "airflow"], "entity_kind": ["node", "supply"], "entity_id": "supply:psu0"},
    ],
)
def test_an_open_incident_can_meet_any_other_condition(data: dict[str, Any]) -> None:
    assert len(met_together(parse_condition(data))) == 1


def test_conditions_that_share_an_incident_are_met_together() -> None:
    sag = parse_condition({"cause": Cause.SUPPLY_SAG.value, "numbers": {"minimum_v": "< 11.4"}})
    deep = parse_condition({"numbers": {"minimum_v": "< 11.0"}})
    (met,) = met_together(sag, deep)
    assert describe_met(met) == "cause is supply_sag and minimum_v below 11"


def test_a_mitigated_incident_meets_a_condition_only_among_its_states() -> None:
    held = parse_condition({"state": "mitigated"})
    assert met_together(held) == ()
    assert len(met_together(held, states=OPEN_OR_MITIGATED)) == 1


def test_every_pair_of_alternatives_that_fits_is_found() -> None:
    one = parse_condition({"any": [{"cause": "hang"}, {"cause": "airflow"}, {"severity": "critical"}]})
    other = parse_condition({"any": [{"cause": "hang"}, {"severity": "info"}]})
    assert [describe_met(item) for item in met_together(one, other)] == [
        "cause is hang",
        "cause is hang and severity is info",
        "cause is airflow and severity is info",
        "severity is critical and cause is hang",
    ]


POLICIES = {policy.id: policy for policy in load_builtin_policies()}
NOTIFY = POLICIES["gpu-lost-notify"]
CAP = POLICIES["thermal-margin-clock-cap"]
LOST = {"cause": "gpu_lost"}
HANG = {"cause": "hang"}
NEVER = {"state": "closed"}


def policy(
    name: str, when: Mapping[str, Any] = LOST, *, action: ActionClass = ActionClass.NOTIFY, after: str = ""
) -> Policy:
    then = replace(NOTIFY.then, action=action, hold_s=10.0, budget=Budget(actions=1, per_s=3600.0))
    return replace(NOTIFY, id=name, when=parse_condition(when), then=then, after=after or None)


def flaws(policies: Sequence[Policy], kind: Flaw) -> list[tuple[str, str]]:
    return [(item.policy_id, item.key) for item in check_policies(policies) if item.flaw is kind]


def texts(policies: Sequence[Policy], kind: Flaw) -> str:
    return "\n".join(item.summary for item in check_policies(policies) if item.flaw is kind)


def test_the_builtin_policies_have_no_errors() -> None:
    errors = [item for item in check_policies(tuple(POLICIES.values())) if item.flaw.is_error]
    assert errors == []


def test_a_condition_that_nothing_meets_is_unreachable() -> None:
    never = policy("never", NEVER)
    assert flaws([never], Flaw.UNREACHABLE) == [("never", "when")]


def test_a_side_that_nothing_meets_is_reported_beside_one_that_can_be_met() -> None:
    half = policy("half", {"any": [LOST, NEVER]})
    assert flaws([half], Flaw.UNREACHABLE) == [("half", "when")]
    assert "its alternative 'state is closed'" in texts([half], Flaw.UNREACHABLE)


def test_a_way_to_be_met_that_no_case_takes_is_reported() -> None:
    both = policy("both", {"any": [LOST, {"cause": "hang", "severity": "critical"}]})
    assert "no case fires through 'cause is hang and severity is critical'" in texts([both], Flaw.UNTESTED)
    assert flaws([policy("one")], Flaw.UNTESTED) == []


@pytest.mark.parametrize(
    ("ladder", "kind", "output"),
    [
        ([("b", "gone")], Flaw.LADDER, "there is no policy gone"),
        ([("a", "b"), ("b", "a")], Flaw.LADDER, "in a circle: a after b"),
        ([("a", "b"), ("b", "c"), ("c", "a")], Flaw.LADDER, "in a circle: a after b after c"),
    ],
)
def test_a_ladder_that_stands_on_nothing_or_in_a_circle_is_an_error(
    ladder: list[tuple[str, str]], kind: Flaw, output: str
) -> None:
    assert output in texts([policy(name, after=after) for name, after in ladder], kind)


def test_a_rung_is_unreachable_after_one_that_never_acts() -> None:
    rung = policy("rung", after="first")
    first = policy("first", action=ActionClass.CHECKPOINT)
    assert flaws([first, rung], Flaw.UNREACHABLE) == []
    deprecated = replace(first, status=PolicyStatus.DEPRECATED)
    assert "deprecated and never acts" in texts([deprecated, rung], Flaw.UNREACHABLE)
    watching = replace(first, then=replace(first.then, mode=Mode.OBSERVE))
    assert flaws([watching, rung], Flaw.UNREACHABLE) == []  # it is gone past
    elsewhere = replace(first, when=parse_condition(HANG))
    assert "no incident meets both its condition and that of first" in texts([elsewhere, rung], Flaw.UNREACHABLE)


def test_a_rung_that_waits_for_a_check_that_is_never_made_is_reported() -> None:
    first, rung = policy("first"), policy("rung", after="first")
    found = check_policies([first, rung], checked=frozenset({"supply_sag"}))
    assert [item.summary for item in found if item.flaw is Flaw.RARE] == [
        "no symptom is checked for gpu_lost: reached only where first cannot act"
    ]
    assert not any(item.flaw is Flaw.RARE for item in check_policies([first, rung], checked=frozenset({"gpu_lost"})))
    anything = [policy("first", {}), policy("rung", {}, after="first")]
    assert not any(item.flaw is Flaw.RARE for item in check_policies(anything, checked=frozenset({"supply_sag"})))


def test_a_ramp_may_begin_while_the_symptom_is_held_down() -> None:
    held = parse_condition({"state": "mitigated"})
    setting = SettingRule(ramp_from=0.6)
    ramp = replace(CAP, id="ramp", when=held, then=replace(CAP.then, setting=setting))
    assert flaws([ramp], Flaw.UNREACHABLE) == []
    assert flaws([replace(CAP, when=held)], Flaw.UNREACHABLE) == [(CAP.id, "when")]


def test_asking_for_time_and_taking_it_away_is_a_contradiction() -> None:
    save = policy("save", action=ActionClass.CHECKPOINT)
    end = policy("end", {"severity": "critical"}, action=ActionClass.REQUEUE)
    assert flaws([save, end], Flaw.CONTRADICTING) == [("save", "when")]
    reported = texts([save, end], Flaw.CONTRADICTING)
    assert "save requests a checkpoint from the job while end ends the job at once" in reported
    assert "both if cause is gpu_lost and severity is critical" in reported


def test_one_after_the_other_is_none() -> None:
    save = policy("save", action=ActionClass.CHECKPOINT)
    end = policy("end", action=ActionClass.REQUEUE, after="between")
    between = policy("between", action=ActionClass.HOOK, after="save")
    assert flaws([save, between, end], Flaw.CONTRADICTING) == []


def test_nor_is_a_pair_that_no_incident_joins_or_that_is_not_enforced() -> None:
    save = policy("save", action=ActionClass.CHECKPOINT)
    apart = policy("end", HANG, action=ActionClass.POWER_CYCLE)
    assert flaws([save, apart], Flaw.CONTRADICTING) == []
    end = policy("end", action=ActionClass.POWER_CYCLE)
    assert flaws([save, end], Flaw.CONTRADICTING) != []
    watching = replace(end, then=replace(end.then, mode=Mode.RECOMMEND))
    assert flaws([save, watching], Flaw.CONTRADICTING) == []
    assert flaws([save, replace(end, status=PolicyStatus.DEPRECATED)], Flaw.CONTRADICTING) == []


def test_two_that_do_the_same_overlap_and_the_stricter_cap_wins() -> None:
    assert "one and two both do notify" in texts([policy("one"), policy("two")], Flaw.OVERLAPPING)
    twin = replace(CAP, id="twin")
    assert "both hold clock_cap; the stricter one wins" in texts([CAP, twin], Flaw.OVERLAPPING)


def test_a_ramp_leaves_the_caps_of_others_alone() -> None:
    ramp = replace(CAP, id="ramp", then=replace(CAP.then, setting=SettingRule(ramp_from=0.6)))
    assert flaws([CAP, ramp], Flaw.OVERLAPPING) == []


def test_what_keeps_an_action_in_bounds_is_asked_for() -> None:
    loose = replace(NOTIFY.then, cooldown_s=0.0)
    program = replace(loose, action=ActionClass.HOOK)
    free = replace(CAP, id="free", then=replace(CAP.then, lease_s=None))
    policies = [replace(NOTIFY, id="a", then=loose), replace(NOTIFY, id="b", then=program), free]
    assert flaws(policies, Flaw.UNBOUNDED) == [
        ("a", "then.cooldown"),
        ("b", "then.cooldown"),
        ("b", "then.budget"),
        ("b", "then.hold"),
        ("free", "then.lease"),
    ]


def test_a_number_that_no_source_names_is_reported() -> None:
    bare = policy("bare", {**LOST, "numbers": {"silent_s": "> 4.5"}})
    assert "no line of it names 4.5" in texts([bare], Flaw.UNSOURCED)
    sourced = replace(bare, source=("measured in March: 4.5 s",))
    assert flaws([sourced], Flaw.UNSOURCED) == []
    assert "names 4.5" in texts([replace(bare, source=("14.5 s, 4.55 s",))], Flaw.UNSOURCED)
    assert flaws([replace(bare, source=("measured: 3, 4.5 and 11, 12 s",))], Flaw.UNSOURCED) == []
    thousand = policy("bare", {**LOST, "numbers": {"silent_s": "> 1530"}})
    for line in ("1530 s", "1,530 s", "1 530 s"):
        assert flaws([replace(thousand, source=(line,))], Flaw.UNSOURCED) == []


def test_errors_come_first() -> None:
    found: Sequence[Complaint] = check_policies([policy("two"), policy("one"), policy("never", NEVER)])
    assert [item.flaw.is_error for item in found] == sorted((item.flaw.is_error for item in found), reverse=True)
    assert found[0].policy_id == "never"


def _with_node(case: CaseDocument, **changes: float) -> CaseDocument:
    return case.model_copy(update={"node": case.node.model_copy(update=changes)})


@pytest.mark.parametrize(
    ("action", "key", "restrains", "restrains_nothing"),
    [
        (ActionClass.CLOCK_CAP, "then.clock.mhz", 1522.0, 1530.0),
        (ActionClass.POWER_CAP, "then.power.watts", 295.0, 300.0),
        (ActionClass.FAN, "then.fan.ratio", 0.35, 0.3),
    ],
)
def test_a_fixed_setting_that_restrains_no_node_of_its_cases_is_an_error(
    action: ActionClass, key: str, restrains: float, restrains_nothing: float
) -> None:
    def fixed(value: float) -> Policy:
        cases = tuple(_with_node(case, fan_min_ratio=0.3) for case in CAP.cases)
        return replace(CAP, then=replace(CAP.then, action=action, setting=SettingRule(fixed=value)), cases=cases)

    assert Flaw.INEFFECTIVE.is_error
    assert flaws([fixed(restrains)], Flaw.INEFFECTIVE) == []
    assert flaws([fixed(restrains_nothing)], Flaw.INEFFECTIVE) == [(CAP.id, key)]


def test_a_fixed_clock_that_one_case_shows_at_work_is_none() -> None:
    then = replace(CAP.then, setting=SettingRule(fixed=1600.0))
    first = _with_node(CAP.cases[0], max_clock_mhz=1980.0)
    assert flaws([replace(CAP, then=then, cases=(first, *CAP.cases[1:]))], Flaw.INEFFECTIVE) == []
