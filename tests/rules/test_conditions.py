"""Conditions: what they see, what they refuse at load, and what they make of absent evidence."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.conditions import FACTS, LENGTH_MAX, compile_condition, facts_of
from telemetry.records import Cause, IncidentState
from tests.rules.scenes import incident


def test_a_condition_sees_exactly_the_documented_facts() -> None:
    facts = facts_of(incident(numbers={"minimum_v": 11.31}))
    assert set(facts) == set(FACTS)
    condition = compile_condition(
        "incident.cause == 'supply_sag' && incident.severity_rank >= 2 && incident.entity_kind == 'supply' "
        "&& incident.numbers.minimum_v < 11.4 && incident.affected_count == 1"
    )
    assert condition.judge(facts).met


def test_the_newest_number_wins_and_cleared_findings_do_not_score() -> None:
    assert facts_of(incident(state=IncidentState.CLOSED))["score"] == 0.0
    assert facts_of(incident(numbers={"dips": 3}))["numbers"] == {"dips": 3}


def test_absent_evidence_is_not_met_and_is_said() -> None:
    judgement = compile_condition("incident.numbers.minimum_v < 11.4").judge(facts_of(incident()))
    assert not judgement.met
    assert judgement.doubt == "the condition needs minimum_v, which the incident does not carry"


def test_absent_evidence_can_be_asked_for() -> None:
    condition = compile_condition("has(incident.numbers.minimum_v) && incident.numbers.minimum_v < 11.4")
    judgement = condition.judge(facts_of(incident()))
    assert not judgement.met
    assert judgement.doubt is None


def test_a_type_that_does_not_fit_is_a_doubt_and_no_crash() -> None:
    judgement = compile_condition("incident.numbers.dips == 'many' || incident.numbers.dips > 'x'").judge(
        facts_of(incident(numbers={"dips": 3.0}))
    )
    assert not judgement.met
    assert judgement.doubt is not None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("incident.cause == ", "a CEL expression"),
        ("", "a CEL expression"),
        ("incident.cause = 'x'", "column 16"),
        ("cause == 'supply_sag'", "over 'incident' alone, without cause"),
        ("incident.reason == 'x'", "not reason"),
        ("incident.score", "true or false"),
        ("open('/etc/passwd') == ''", "true or false"),
        ("incident.cause > 1", "true or false"),
        ("(" * 400 + "true" + ")" * 400, "a CEL expression"),
        ("true" + " " * LENGTH_MAX, "at most"),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_be_right(source: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        compile_condition(source)
    assert "\n" not in str(caught.value)


def test_a_word_in_quotes_and_a_name_bound_by_a_macro_are_no_strangers() -> None:
    condition = compile_condition("incident.numbers.exists(k, k == 'incident.reason') || incident.cause == \"a.b\"")
    assert not condition.judge(facts_of(incident())).met


@given(st.text(alphabet="incident.numbers()[]{}<>=!&|'\"+-*/%?:, 019abk\n", max_size=60))
def test_any_text_is_either_a_condition_or_refused(source: str) -> None:
    try:
        condition = compile_condition(source)
    except ValueError:
        return
    condition.judge(facts_of(incident(Cause.POWER_BRAKE)))


def test_the_whole_terminal_program_of_the_cel_package_stays_unloaded() -> None:
    check = "import sys, rules.loading as l; l.load_builtin_policies(); print('cel.cli' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_cel_package_can_still_be_imported_whole_afterwards() -> None:
    check = "import rules.conditions as c; c.compile_condition('true'); import cel; print(cel.evaluate('1 + 1'))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
