"""Conditions taken apart: the branches say what the engine of conditions says, on any facts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.checking.branches import TooManyBranchesError, branches_of, holds
from rules.checking.ranges import EVERYTHING, Interval, compared, meet, outside, some_of
from rules.checking.reach import Answer, reach_of
from rules.conditions.condition import compile_condition
from rules.conditions.facts import facts_of
from telemetry.records import Cause, Severity
from tests.rules.scenes import incident

CAUSES = ("supply_sag", "power_brake", "gpu_lost")
NUMBERS = (10.5, 11.4, 12.0)
OPERATORS = ("<", "<=", ">", ">=", "==", "!=")
RANKS = {item.value: item.rank for item in Severity}


def atoms() -> st.SearchStrategy[str]:
    cause, number, operator = st.sampled_from(CAUSES), st.sampled_from(NUMBERS), st.sampled_from(OPERATORS)
    return st.one_of(
        st.builds("incident.cause {} '{}'".format, st.sampled_from(("==", "!=")), cause),
        st.builds("incident.cause in ['{}', '{}']".format, cause, cause),
        st.builds("incident.severity_rank {} {}".format, operator, st.integers(0, 3)),
        st.builds("incident.severity != '{}'".format, st.sampled_from(tuple(RANKS))),
        st.builds("incident.affected_count {} {}".format, operator, st.integers(0, 3)),
        st.builds("incident.numbers.minimum_v {} {}".format, operator, number),
        st.builds("{} {} incident.numbers.minimum_v".format, number, operator),
        st.builds("incident.numbers.dips in [{}, {}]".format, number, number),
        st.just("has(incident.numbers.minimum_v)"),
        st.just("'dips' in incident.numbers"),
        st.builds("incident.entity_id == 'supply:psu{}'".format, st.integers(0, 1)),
        st.just("incident.entity_kind == 'gpu'"),
    )


def conditions() -> st.SearchStrategy[str]:
    return st.recursive(
        atoms(),
        lambda inner: st.one_of(
            st.builds("({} && {})".format, inner, inner),
            st.builds("({} || {})".format, inner, inner),
            st.builds("!({})".format, inner),
            st.builds("({} ? {} : {})".format, inner, inner, inner),
        ),
        max_leaves=5,
    )


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.sets(st.sampled_from(("minimum_v", "dips"))))
    told = facts_of(incident(numbers={name: draw(st.sampled_from((*NUMBERS, 11.0))) for name in sorted(names)}))
    severity, entity = (
        draw(st.sampled_from(tuple(RANKS))),
        draw(st.sampled_from(("supply:psu0", "supply:psu1", "gpu:a"))),
    )
    told["incident"] |= {
        "cause": draw(st.sampled_from(CAUSES)),
        "severity": severity,
        "severity_rank": RANKS[severity],
        "affected_count": draw(st.integers(1, 3)),
        "entity_id": entity,
        "entity_kind": entity.partition(":")[0],
    }
    return told


@given(source=conditions(), told=facts())
def test_branches_state_what_the_engine_of_conditions_states(source: str, told: dict[str, Any]) -> None:
    condition = compile_condition(source)
    try:
        branches = branches_of(condition.tree, source)
    except TooManyBranchesError:
        return
    # What is not equal to a text without a vocabulary is left as a doubt, and so says less than the engine.
    exact = not any(branch.doubts for branch in branches)
    met = condition.judge(told).met
    held = any(holds(branch, told) for branch in branches)
    assert held is met if exact else held >= met, source


@given(source=conditions())
def test_a_condition_that_can_be_met_is_shown_with_facts_that_meet_it(source: str) -> None:
    condition = compile_condition(source)
    reach = reach_of(condition)
    assert (reach.witness is not None) is (reach.answer is Answer.MET)
    if reach.witness is not None:
        assert condition.judge(reach.witness).met
    assert reach.answer is not Answer.UNDECIDED or any(branch.doubts for branch in reach.branches), source


@pytest.mark.parametrize(
    "source",
    [
        "incident.cause == 'hang' && incident.cause == 'gpu_lost'",
        "incident.severity == 'info' && incident.severity_rank >= 1",
        "incident.state == 'closed'",
        "incident.numbers.minimum_v > 11.4 && 11.4 >= incident.numbers.minimum_v",
        "incident.affected_count > 1 && incident.affected_count < 2",
        "incident.affected_count < 1",
        "incident.score > 1.0",
        "!has(incident.numbers.minimum_v) && incident.numbers.minimum_v < 11.4",
        "!has(incident.cause)",
        "incident.entity_kind == 'gpu' && incident.entity_id == 'supply:psu0'",
        "incident.silenced && !incident.silenced",
        "false",
        "incident.numbers.dips == 2.0 && incident.numbers.dips != 2.0",
        "incident.root_cause in ['hang'] && incident.root_cause == 'airflow'",
        "incident.confidence > 0.5 && incident.confidence < 0.4",
    ],
)
def test_what_no_open_incident_can_be_is_never_met(source: str) -> None:
    assert reach_of(compile_condition(source)).answer is Answer.NEVER


@pytest.mark.parametrize(
    "source",
    [
        "true",
        "incident.silenced",
        "incident.root_cause == 'joint_ageing' && incident.confidence > 0.9",
        "incident.loss_probability >= 0.2 && incident.age_s > 30.0",
        "gpu.clock_mhz < 1000.0 && supply.minimum_v < 11.4 && node.gpu_count == 4",
        "incident.numbers['minimum_v'] > 11.3 && incident.numbers.minimum_v < 11.4",
        "!(incident.cause in ['hang', 'gpu_lost']) && incident.entity_kind != 'gpu'",
    ],
)
def test_what_can_be_is_met_by_what_is_shown(source: str) -> None:
    assert reach_of(compile_condition(source)).answer is Answer.MET


def test_what_is_not_known_here_is_stated_and_not_guessed() -> None:
    reach = reach_of(compile_condition("incident.numbers.minimum_v > incident.numbers.limit_v"))
    assert reach.answer is Answer.UNDECIDED
    assert "incident.numbers.minimum_v > incident.numbers.limit_v" in reach.why


def test_a_condition_of_too_many_ways_is_not_looked_at() -> None:
    pairs = " && ".join(f"(incident.score > 0.{i} || incident.age_s > {i}.0)" for i in range(10, 20))
    reach = reach_of(compile_condition(pairs))
    assert reach.answer is Answer.UNDECIDED
    assert "512 ways" in reach.why


def test_two_conditions_of_many_ways_each_are_not_looked_at_together() -> None:
    many = compile_condition(" && ".join(f"(incident.score > 0.{i} || incident.age_s > {i}.0)" for i in range(10, 18)))
    reach = reach_of(many, many)
    assert reach.answer is Answer.UNDECIDED
    assert "met together" in reach.why


def test_conditions_that_share_an_incident_are_met_together() -> None:
    sag = compile_condition(f"incident.cause == '{Cause.SUPPLY_SAG}' && incident.numbers.minimum_v < 11.4")
    deep = compile_condition("incident.numbers.minimum_v < 11.0")
    lost = compile_condition(f"incident.cause == '{Cause.GPU_LOST}'")
    assert reach_of(sag, deep).answer is Answer.MET
    assert reach_of(sag, lost).answer is Answer.NEVER


@given(
    operator=st.sampled_from(OPERATORS),
    constant=st.sampled_from(NUMBERS),
    value=st.sampled_from((*NUMBERS, 11.0, -1.0, 1e9)),
)
def test_a_range_holds_what_its_comparison_holds(operator: str, constant: float, value: float) -> None:
    held = any(item.holds(value) for item in compared(operator, constant))
    assert held is compile_condition(f"{value} {operator} {constant}").judge({}).met


def test_ranges_meet_and_give_a_number_of_theirs() -> None:
    assert meet(compared(">", 11.4), compared("<", 11.4)) == ()
    assert some_of(meet(compared(">", 1.0), compared("<", 2.0)), whole=True) is None
    assert some_of(meet(compared(">", 1.0), compared("<", 3.0)), whole=True) == 2.0
    assert some_of(EVERYTHING, whole=False) == 0.0
    assert some_of((Interval(high=-4.0, high_open=True),), whole=False) == -5.0
    assert meet(outside((1.0, 2.0)), compared("==", 1.0)) == ()
    assert meet(outside((1.0, 2.0)), compared("==", 1.5)) == compared("==", 1.5)
