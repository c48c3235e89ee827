"""Conditions: the facts they read, what they make of absent ones, and which requirements go together."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.detectors.link_evidence import LINK_ERROR_KINDS
from analytics.novelty.features import FEATURE_SIGNALS
from physics.node_state import MeasuredNode, MeasuredSupply
from rules.conditions.condition import combine, describe, judge_alternative
from rules.conditions.document import parse_condition
from rules.conditions.facts import FACTS, FactType, FactValue, facts_of
from telemetry.clock import NS_PER_S
from telemetry.quantities import EARLIER_EVIDENCE, EVIDENCE
from telemetry.records import Cause, FaultClass, Hypothesis, IncidentState, Severity
from tests.rules.scenes import GPUS, gpu_state, incident

ROOT = Path(__file__).parents[3]
TYPES: dict[FactType, type | tuple[type, ...]] = {
    FactType.TEXT: str,
    FactType.WHOLE: (int, float),
    FactType.NUMBER: float,
    FactType.BOOL: bool,
}


def test_a_condition_reads_exactly_the_declared_facts() -> None:
    node = MeasuredNode(
        gpus=(replace(gpu_state(GPUS[0]), temp_c=60.0, fan_ratio=0.4),),
        job_started_ns=0,
        supplies=(
            MeasuredSupply(
                entity_id="supply:psu0",
                minimum_v=11.2,
                open_circuit_v=12.3,
                source_resistance_ohm=0.007,
                current_high_a=150.0,
                current_low_a=80.0,
            ),
        ),
    )
    known = Hypothesis(cause=FaultClass.JOINT_AGEING, probability=0.8, for_=(), against=(), would_disprove="")
    about = replace(incident(numbers={"minimum_v": 11.31}), loss_probability=0.2, hypotheses=(known,))
    on_gpu = facts_of(replace(about, entity_id=GPUS[0]), node, about.time_ns)
    on_supply = facts_of(about, node, about.time_ns)
    assert {*on_gpu, *on_supply} == {*FACTS, "numbers.minimum_v"}
    assert not any(path.startswith("gpu.") for path in on_supply), "a supply is no GPU"
    for path, fact in FACTS.items():
        value = on_gpu[path]
        assert isinstance(value, TYPES[fact.type]), path
        assert not isinstance(value, str) or fact.values is None or value in fact.values


def test_evidence_is_still_read_under_its_earlier_name() -> None:
    facts = facts_of(incident(numbers={"rated_w": 1100.0}))
    assert parse_condition({"numbers": {"chosen_for_w": "> 1000"}}).judge(facts).met
    assert "numbers.chosen_for_w" not in facts_of(incident(numbers={"minimum_v": 11.3}))


def test_a_condition_weighs_incident_and_node_together() -> None:
    condition = parse_condition(
        {
            "cause": "supply_sag",
            "severity": "critical",
            "entity_kind": "supply",
            "affected_count": 1,
            "numbers": {"minimum_v": "< 11.4"},
            "supply": {"minimum_v": "< 11.4"},
        }
    )
    about = incident(numbers={"minimum_v": 11.31})
    low = MeasuredNode(gpus=(), supplies=(MeasuredSupply(entity_id="supply:psu0", minimum_v=11.2),))
    high = MeasuredNode(gpus=(), supplies=(MeasuredSupply(entity_id="supply:psu0", minimum_v=11.9),))
    assert condition.moves
    assert condition.judge(facts_of(about, low)).met
    assert not condition.judge(facts_of(about, high)).met
    assert condition.judge(facts_of(about)).doubt == "the condition needs supply.minimum_v, which is not known"


def test_only_facts_that_change_between_two_records_are_read_at_every_step() -> None:
    assert not parse_condition({"cause": "hang", "numbers": {"stalled_s": "> 60"}}).moves
    assert parse_condition({"cause": "hang", "age_s": "> 60"}).moves


def test_the_age_is_that_of_the_incident_and_never_below_zero() -> None:
    about = incident()
    assert facts_of(about, now_ns=about.opened_ns + 5 * NS_PER_S)["age_s"] == 5.0
    assert facts_of(about, now_ns=about.opened_ns - NS_PER_S)["age_s"] == 0.0


def test_an_incident_on_a_node_has_the_facts_of_its_lowest_supply() -> None:
    supplies = tuple(MeasuredSupply(entity_id=f"supply:psu{i}", minimum_v=v) for i, v in enumerate((11.9, 11.3, None)))
    about = replace(incident(), entity_id="node:box")
    facts = facts_of(about, MeasuredNode(gpus=(), supplies=supplies))
    assert {path: value for path, value in facts.items() if path.startswith("supply.")} == {"supply.minimum_v": 11.3}


def test_the_newest_number_wins_and_cleared_findings_do_not_score() -> None:
    assert facts_of(incident(state=IncidentState.CLOSED))["score"] == 0.0
    assert facts_of(incident(numbers={"dips": 3}))["numbers.dips"] == 3


def test_absent_evidence_is_not_met_and_is_named() -> None:
    judgement = parse_condition({"numbers": {"minimum_v": "< 11.4"}}).judge(facts_of(incident()))
    assert not judgement.met
    assert judgement.doubt == "the condition needs minimum_v, which is not known"


def test_a_fact_that_does_not_fit_outweighs_an_absent_one_in_any_order() -> None:
    for data in (
        {"cause": "gpu_lost", "numbers": {"minimum_v": "< 11.4"}},
        {"numbers": {"dips": "> 5", "minimum_v": "< 11.4"}},
    ):
        judgement = parse_condition(data).judge(facts_of(incident(numbers={"dips": 2.0})))
        assert not judgement.met
        assert judgement.doubt is None


def test_one_alternative_that_is_met_is_enough() -> None:
    either = parse_condition({"any": [{"numbers": {"minimum_v": "< 11.4"}}, {"severity": "critical"}]})
    assert either.judge(facts_of(incident())).met
    doubtful = either.judge(facts_of(incident(severity=Severity.INFO)))
    assert not doubtful.met
    assert doubtful.doubt == "the condition needs minimum_v, which is not known"


def test_keys_beside_any_hold_for_every_alternative() -> None:
    condition = parse_condition({"cause": "supply_sag", "any": [{"severity": "critical"}, {"score": ">= 0.9"}]})
    assert condition.judge(facts_of(incident())).met
    assert not condition.judge(facts_of(incident(Cause.POWER_BRAKE))).met
    assert (
        str(condition) == "cause is supply_sag and severity is critical; or cause is supply_sag and score at least 0.9"
    )


def test_a_condition_without_requirements_is_met_by_every_incident() -> None:
    condition = parse_condition({})
    assert condition.judge(facts_of(incident(Cause.POWER_BRAKE))).met
    assert str(condition) == "any incident is open"


def test_requirements_are_described_by_their_facts() -> None:
    (requirements,) = parse_condition(
        {
            "cause": ["hang", "gpu_lost"],
            "severity": "warning+",
            "silenced": False,
            "score": "> 0.5",
            "numbers": {"dips": [2, 3], "minimum_v": "< 11.4", "code": 79},
            "node": {"gpu_count": "2..4"},
        }
    ).alternatives
    assert describe(requirements) == (
        "cause is one of gpu_lost, hang and severity is one of warning, critical and score above 0.5 and silenced is "
        "false and code is 79 and dips at least 2 and at most 3 and minimum_v below 11.4 and node.gpu_count at least 2 "
        "and at most 4"
    )


CAUSES = ("supply_sag", "power_brake", "gpu_lost")
NUMBERS = (10.5, 11.4, 12.0)


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    comparison = st.builds("{} {}".format, st.sampled_from(("<", "<=", ">", ">=", "==")), st.sampled_from(NUMBERS))
    count = st.builds("{} {}".format, st.sampled_from(("<=", ">", ">=", "==")), st.integers(1, 3))
    return st.fixed_dictionaries(
        {},
        optional={
            "cause": st.lists(st.sampled_from(CAUSES), min_size=1),
            "severity": st.sampled_from(("info", "info+", "warning", "warning+", "critical")),
            "affected_count": count,
            "entity_id": st.sampled_from(("supply:psu0", "gpu:a")),
            "entity_kind": st.sampled_from(("supply", "gpu")),
            "numbers": st.fixed_dictionaries({}, optional={"minimum_v": comparison, "dips": comparison}),
        },
    )


@st.composite
def facts(draw: st.DrawFn) -> dict[str, FactValue]:
    names = draw(st.sets(st.sampled_from(("minimum_v", "dips"))))
    found = facts_of(incident(numbers={name: draw(st.sampled_from((*NUMBERS, 11.0))) for name in sorted(names)}))
    entity = draw(st.sampled_from(("supply:psu0", "supply:psu1", "gpu:a")))
    return found | {
        "cause": draw(st.sampled_from(CAUSES)),
        "severity": draw(st.sampled_from(tuple(item.value for item in Severity))),
        "affected_count": draw(st.integers(1, 3)),
        "entity_id": entity,
        "entity_kind": entity.partition(":")[0],
    }


@given(one=conditions(), other=conditions(), found=facts())
def test_two_alternatives_combined_are_met_by_the_facts_that_meet_both(
    one: dict[str, Any], other: dict[str, Any], found: Mapping[str, FactValue]
) -> None:
    first, second = (parse_condition(item).alternatives[0] for item in (one, other))
    both = combine(first, second)
    met = judge_alternative(first, found).met and judge_alternative(second, found).met
    assert met is (both is not None and judge_alternative(both, found).met)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cause": "hang"}, {"cause": ["gpu_lost", "airflow"]}),
        ({"severity": "info"}, {"severity": "warning+"}),
        ({"numbers": {"minimum_v": "> 11.4"}}, {"numbers": {"minimum_v": "<= 11.4"}}),
        ({"affected_count": "> 1"}, {"affected_count": "< 2"}),
        ({"entity_kind": "gpu"}, {"entity_id": "supply:psu0"}),
        ({"silenced": True}, {"silenced": False}),
        ({"confidence": "> 0.5"}, {"confidence": "< 0.4"}),
    ],
)
def test_requirements_that_exclude_each_other_do_not_combine(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = (parse_condition(item).alternatives[0] for item in (one, other))
    assert combine(first, second) is None
    assert combine(second, first) is None
    assert combine(first, first) == first


def test_every_piece_of_evidence_that_a_detector_returns_is_listed() -> None:
    given = {name for path in (ROOT / "analytics").rglob("*.py") for name in evidence_names(path)}
    given |= {f"{prefix}{channel.name}" for channel in LINK_ERROR_KINDS for prefix in ("", "sibling_")}
    given |= {f"{prefix}{sense.signal}" for sense in FEATURE_SIGNALS.values() for prefix in ("", "usual_")}
    assert given == set(EVIDENCE) - set(EARLIER_EVIDENCE), "telemetry/quantities.py lists the evidence of analytics"


def evidence_names(path: Path) -> Iterator[str]:
    """Yield the names in every row of name, value and unit that a module passes to `evidence`, or makes for it."""
    text = path.read_text(encoding="utf-8")
    if "evidence(" not in text and path.stem != "link_evidence":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Tuple) and len(node.elts) == 3:
            name, value, unit = node.elts
            texts = [part.value for part in (name, unit) if isinstance(part, ast.Constant)]
            if len(texts) == 2 and all(isinstance(part, str) for part in texts) and not isinstance(value, ast.Constant):
                yield str(texts[0])
