"""The `when` of a policy file: every mistake at its key, with what would be right, and CEL text refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rules.conditions.document import WhenDocument, converted, parse_condition, refuse_expression
from rules.conditions.facts import FACTS
from telemetry.documents import check_document
from telemetry.errors import ConfigError, Problem
from telemetry.quantities import EVIDENCE


def problems(data: Any) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        check_document(WhenDocument, data, where="here", lines={})
    return caught.value.problems


def test_every_fact_and_every_piece_of_evidence_has_a_key() -> None:
    def keys(model: Any) -> set[str]:
        found = set()
        for name, field in model.model_fields.items():
            inner = getattr(field.annotation, "model_fields", {})
            found |= {f"{name}.{key}" for key in keys(field.annotation)} if "root" not in inner and inner else {name}
        return found

    assert keys(WhenDocument) - {"any"} == {*FACTS, *(f"numbers.{name}" for name in EVIDENCE)}


@pytest.mark.parametrize(
    ("data", "key", "expected"),
    [
        ({"severty": "warning"}, "severty", "perhaps severity"),
        ({"cause": "suply_sag"}, "cause", "supply_sag instead of suply_sag, or one of"),
        ({"cause": ["supply_sag", "x"]}, "cause", ", not x"),
        ({"cause": []}, "cause", "one cause or a list of them"),
        ({"cause": None}, "cause", "one cause or a list of them"),
        ({"cause": 1}, "cause", "one cause or a list of them"),
        ({"severity": "crit"}, "severity", "critical instead of crit, or one of info, warning, critical"),
        ({"severity": ">= warning"}, "severity", "one of info, warning, critical"),
        ({"cause": "supply_sag+"}, "cause", "supply_sag instead of"),
        ({"state": "opened"}, "state", "open instead of opened"),
        ({"root_cause": "joint"}, "root_cause", "one of joint_ageing"),
        ({"entity_id": "psu0"}, "entity_id", "such as supply:psu0"),
        ({"silenced": "yes"}, "silenced", "true or false"),
        ({"score": "high"}, "score", "a comparison such as '>= 8'"),
        ({"score": None}, "score", "a comparison such as '>= 8'"),
        ({"score": "> 2"}, "score", "it is a number from 0 to 1"),
        ({"affected_count": "< 1"}, "affected_count", "it is a whole number of 1 or more"),
        ({"affected_count": "1.2..1.8"}, "affected_count", "it is a whole number of 1 or more"),
        ({"numbers": {"minimum_volt": "< 11.4"}}, "numbers.minimum_volt", "perhaps minimum_v"),
        ({"numbers": {"dips": "many"}}, "numbers.dips", "a comparison such as '>= 8'"),
        ({"supply": {"minimum": "< 11.4"}}, "supply.minimum", "perhaps minimum_v"),
        ({"node": {"gpu_count": True}}, "node.gpu_count", "a comparison such as '>= 8'"),
        ({"any": []}, "any", "at least 1"),
        ({"any": [{"cuase": "hang"}]}, "any[0].cuase", "perhaps cause"),
        ({"any": [{"any": [{"cause": "hang"}]}]}, "any[0].any", "one of the known keys"),
        ({"any": [{"cause": "hang"}] * 33}, "any", "at most 32"),
    ],
)
def test_each_mistake_is_named_at_its_key(data: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(data)
    assert problem.key == key
    assert expected in problem.expected


def test_every_mistake_is_reported_at_once() -> None:
    found = problems({"cause": "sag", "severty": "info", "numbers": {"x": "> 1", "dips": "?"}})
    assert {problem.key for problem in found} == {"cause", "severty", "numbers.x", "numbers.dips"}


def test_an_alternative_that_contradicts_the_keys_beside_any_is_refused() -> None:
    with pytest.raises(ValueError, match=r"any\[1\] contradicts them"):
        parse_condition({"cause": "hang", "any": [{"severity": "info"}, {"cause": "gpu_lost"}]})


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("incident.cause == 'supply_sag'", {"cause": "supply_sag"}),
        (
            "incident.cause in [\"hang\", 'gpu_lost'] && incident.severity_rank >= 1",
            {"cause": ["hang", "gpu_lost"], "severity": "warning+"},
        ),
        (
            "incident.cause == 'thermal_interface' && incident.numbers.excess_c >= 8.0 && incident.numbers.dips < 3",
            {"cause": "thermal_interface", "numbers": {"excess_c": ">= 8.0", "dips": "< 3"}},
        ),
        (
            "supply.minimum_v < 11.4 && node.gpu_count == 2",
            {"supply": {"minimum_v": "< 11.4"}, "node": {"gpu_count": "== 2"}},
        ),
        ("incident.cause == 'hang' || incident.age_s > 5", {"any": [{"cause": "hang"}, {"age_s": "> 5"}]}),
    ],
)
def test_a_simple_expression_is_refused_with_the_mapping_to_write_instead(text: str, data: dict[str, Any]) -> None:
    assert converted(text) == data
    parse_condition(data)
    with pytest.raises(ValueError, match=r"^a mapping, as conditions are no longer expressions: when: \{"):
        refuse_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "true",
        "incident.cause ==",
        "!(incident.cause == 'hang')",
        "(incident.cause == 'hang')",
        "incident.numbers.minimum_v < incident.numbers.limit_v",
        "incident.score > 0.1 && incident.score < 0.2",
        "has(incident.numbers.dips)",
        "a.b.c == 'x'",
        "incident.severity_rank < 2",
    ],
)
def test_any_other_expression_is_refused_with_an_example(text: str) -> None:
    assert converted(text) is None
    with pytest.raises(ValueError, match=r"^a mapping such as \{cause: supply_sag"):
        refuse_expression(text)


@given(st.text(alphabet="incident.numbers()[]{}<>=!&|'\"+-*/%?:, 019abk\n", max_size=60))
def test_any_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a mapping") as caught:
        refuse_expression(text)
    assert "\n" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from((*FACTS, "numbers", "node", "any", "dips", "x")), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_any_data_are_either_a_condition_or_refused(data: Any) -> None:
    if not isinstance(data, dict):
        return
    try:
        condition = parse_condition(data)
    except ValidationError:
        return
    assert condition.alternatives
