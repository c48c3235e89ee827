"""Conditions: what they see, what they refuse at load, and what they make of absent evidence."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.detectors.link_counts import CHANNELS
from analytics.novelty.features import SENSES
from physics.node_state import NodeState, SupplyState
from rules.conditions.condition import LENGTH_MAX, ConditionError, compile_condition
from rules.conditions.expression import Kind, Node
from rules.conditions.facts import FACTS, Type, facts_of
from telemetry.clock import NS_PER_S
from telemetry.evidence import EVIDENCE
from telemetry.records import Cause, Hypothesis, IncidentState, RootCause
from tests.rules.scenes import GPUS, gpu_state, incident

ROOT = Path(__file__).parents[3]
TYPES: dict[Type, type | tuple[type, ...]] = {
    Type.TEXT: str,
    Type.INT: (int, float),
    Type.DOUBLE: float,
    Type.BOOL: bool,
    Type.MAP: dict,
}


def test_a_condition_sees_exactly_the_declared_facts() -> None:
    node = NodeState(
        gpus=(replace(gpu_state(GPUS[0]), temp_c=60.0, fan_ratio=0.4),),
        job_started_ns=0,
        supplies=(
            SupplyState(
                entity_id="supply:psu0",
                minimum_v=11.2,
                open_circuit_v=12.3,
                source_resistance_ohm=0.007,
                current_high_a=150.0,
                current_low_a=80.0,
            ),
        ),
    )
    known = Hypothesis(cause=RootCause.JOINT_AGEING, probability=0.8, for_=(), against=(), would_disprove="")
    about = replace(incident(numbers={"minimum_v": 11.31}), loss_probability=0.2, hypotheses=(known,))
    on_gpu = facts_of(replace(about, entity_id=GPUS[0]), node, about.time_ns)
    on_supply = facts_of(about, node, about.time_ns)
    told = {f"{root}.{name}" for facts in (on_gpu, on_supply) for root, inner in facts.items() for name in inner}
    assert told == set(FACTS)
    assert on_supply["gpu"] == {}, "a supply is no GPU"
    for path, fact in FACTS.items():
        root, _, name = path.partition(".")
        value = on_gpu[root].get(name)
        assert isinstance(value, TYPES[fact.type]), path
        assert not isinstance(value, str) or fact.words is None or value in fact.words


def test_a_condition_weighs_incident_and_node_together() -> None:
    condition = compile_condition(
        "incident.cause == 'supply_sag' && incident.severity_rank >= 2 && incident.entity_kind == 'supply' "
        "&& incident.numbers.minimum_v < 11.4 && incident.affected_count == 1 && supply.minimum_v < 11.4"
    )
    about = incident(numbers={"minimum_v": 11.31})
    low = NodeState(gpus=(), supplies=(SupplyState(entity_id="supply:psu0", minimum_v=11.2),))
    high = NodeState(gpus=(), supplies=(SupplyState(entity_id="supply:psu0", minimum_v=11.9),))
    assert condition.moves
    assert condition.judge(facts_of(about, low)).met
    assert not condition.judge(facts_of(about, high)).met
    assert condition.judge(facts_of(about)).doubt == "the condition needs minimum_v, which is not known"


def test_only_what_changes_between_two_records_is_asked_at_every_step() -> None:
    assert not compile_condition("incident.cause == 'hang' && incident.numbers.stalled_s > 60").moves
    assert compile_condition("incident.cause == 'hang' && incident.age_s > 60").moves


def test_the_age_is_that_of_the_incident_and_never_below_zero() -> None:
    about = incident()
    assert facts_of(about, now_ns=about.opened_ns + 5 * NS_PER_S)["incident"]["age_s"] == 5.0
    assert facts_of(about, now_ns=about.opened_ns - NS_PER_S)["incident"]["age_s"] == 0.0


def test_an_incident_on_a_node_is_reported_of_its_lowest_supply() -> None:
    supplies = tuple(SupplyState(entity_id=f"supply:psu{i}", minimum_v=v) for i, v in enumerate((11.9, 11.3, None)))
    about = replace(incident(), entity_id="node:box")
    assert facts_of(about, NodeState(gpus=(), supplies=supplies))["supply"] == {"minimum_v": 11.3}


def test_the_newest_number_wins_and_cleared_findings_do_not_score() -> None:
    assert facts_of(incident(state=IncidentState.CLOSED))["incident"]["score"] == 0.0
    assert facts_of(incident(numbers={"dips": 3}))["incident"]["numbers"] == {"dips": 3}


def test_absent_evidence_is_not_met_and_is_stated() -> None:
    judgement = compile_condition("incident.numbers.minimum_v < 11.4").judge(facts_of(incident()))
    assert not judgement.met
    assert judgement.doubt == "the condition needs minimum_v, which is not known"


def test_absent_evidence_can_be_asked_for() -> None:
    condition = compile_condition("has(incident.numbers.minimum_v) && incident.numbers.minimum_v < 11.4")
    judgement = condition.judge(facts_of(incident()))
    assert not judgement.met
    assert judgement.doubt is None


@pytest.mark.parametrize(
    ("source", "at", "words"),
    [
        ("incident.cause == ", 18, "a value, not 'the end'"),
        ("", 0, "a value, not 'the end'"),
        ("incident.cause = 'x'", 15, "no '=' here"),
        ("incident.cause == 'hang' incident", 25, "an operator or the end"),
        ("1.5x > 1.0", 3, "after the number"),
        ("cause == 'supply_sag'", 0, "incident, node, gpu, supply"),
        ("incident == 'x'", 0, "such as incident.cause"),
        ("incident.severty == 'warning'", 0, "severity perhaps"),
        ("incident.cause.kind == 'x'", 0, "incident.cause has no members"),
        ("supply.minimum > 1.0", 0, "minimum_v perhaps"),
        ("incident.score", 0, "true or false"),
        ("open('/etc/passwd') == ''", 0, "one of has, size"),
        ("incident.cause.map(c, c) == 'x'", 0, "one of startsWith"),
        ("incident.cause == 1", 0, "two values of one type"),
        ("incident.score < 'high'", 0, "two values of one type"),
        ("incident.cause == 'suply_sag'", 18, "supply_sag perhaps"),
        ("'suply_sag' != incident.cause", 0, "supply_sag perhaps"),
        ("incident.severity in ['warning', 'crit']", 33, "one of info, warning, critical"),
        ("incident.severity > 'info'", 0, "incident.severity_rank has an order"),
        ("incident.state == 'opened'", 18, "open perhaps"),
        ("incident.root_cause == 'joint'", 23, "one of joint_ageing"),
        ("incident.entity_id == 'psu0'", 22, "such as supply:psu0"),
        ("incident.numbers.minimum_volt < 11.4", 0, "minimum_v perhaps"),
        ("incident.numbers['minimum_volt'] < 11.4", 17, "minimum_v perhaps"),
        ("'minimum_volt' in incident.numbers", 0, "minimum_v perhaps"),
        ("has(incident.numbers.minimum_volt)", 4, "minimum_v perhaps"),
        ("has(incident.score > 0.0)", 0, "has() of one fact"),
        ("incident.numbers.exists(k, k == 1)", 27, "two values of one type"),
        ("incident.numbers.dips == 'many'", 0, "two values of one type"),
        ("incident.affected_count + incident.score > 1.0", 0, "write 2.0 for 2"),
        ("incident.score && incident.silenced", 0, "on both sides"),
        ("!incident.score", 0, "a truth value after it"),
        ("incident.silenced ? 1 : 'a'", 24, "of one type"),
        ("incident.severity_rank in ['a']", 27, "like what stands before 'in'"),
        ("incident.cause in 'supply_sag'", 18, "a list such as"),
        ("incident.score[0] > 1.0", 0, "brackets after incident.numbers alone"),
        ("size(incident.score) > 1", 5, "text"),
        ("(" * 400 + "true" + ")" * 400, 40, "at most 40 brackets"),
        ("true" + " " * LENGTH_MAX, LENGTH_MAX, "at most"),
        ("!" * 900 + "true", 100, "at most 100 parts"),
        ("1" + "+1" * 480 + " > 0", 0, "at most 100 parts"),
        ("incident" + ".a" * 480 + " == 1", 0, "at most 100 parts"),
        ("incident.entity_id.matches('[')", 0, "a part that has a value"),
        ("incident.cause == 'hang' || incident.age_s > double('soon')", 45, "a part that has a value"),
        ("incident.severity_rank > 1 / 0", 25, "a part that has a value"),
        ("incident.score < \u0661", 17, "no '\u0661' here"),
        ("incident.cause == 'a\\q'", 18, "letters stand for themselves"),
    ],
)
def test_what_is_wrong_is_refused_at_its_place_with_what_would_be_right(source: str, at: int, words: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(source)
    assert "\n" not in str(caught.value)
    assert [(fault.at, words in fault.expected) for fault in caught.value.faults] == [(at, True)], str(caught.value)


def test_every_fault_of_a_condition_is_reported_at_once_in_its_order() -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition("incident.cause == 'sag' || incident.severty == 1 && incident.numbers.x > 0.5")
    assert [fault.at for fault in caught.value.faults] == [18, 27, 52]


@pytest.mark.parametrize(
    "source",
    [
        "incident.numbers.exists(k, k == 'minimum_v' && incident.numbers[k] < 11.4)",
        "incident.entity_id.startsWith('supply:') && size(incident.numbers) > 0",
        "double(incident.affected_count) * incident.score >= 2.0",
        "(incident.silenced ? 2 : 1) == 1",
        "incident.severity_rank >= 1.5",
        "r'supply_sag' == incident.cause // with a remark",
        "incident.cause in ['hang', \"straggler\"] && !(incident.age_s < 60)",
        "-incident.score < 0.0 && 0x10 == 16 && .5 < 1e3",
        "incident.affected_count % 2 == 0",
    ],
)
def test_what_the_language_has_is_taken(source: str) -> None:
    assert compile_condition(source).judge(facts_of(incident(numbers={"minimum_v": 11.0}))).doubt is None


def test_a_word_in_quotes_and_a_name_bound_by_a_macro_are_no_strangers() -> None:
    condition = compile_condition("incident.numbers.exists(k, k == 'dips') || incident.entity_id == \"supply:a.b\"")
    assert not condition.judge(facts_of(incident())).met


def test_every_piece_of_evidence_that_a_detector_returns_is_listed() -> None:
    given = {name for path in (ROOT / "analytics").rglob("*.py") for name in evidence_names(path)}
    given |= {f"{beside}{channel.name}" for channel in CHANNELS for beside in ("", "sibling_")}
    given |= {f"{beside}{sense.signal}" for sense in SENSES.values() for beside in ("", "usual_")}
    assert given == set(EVIDENCE), "telemetry/evidence.py lists what analytics gives"


def evidence_names(path: Path) -> Iterator[str]:
    """Yield the names in every row of name, value and unit that a module hands to `evidence`, or makes for it."""
    text = path.read_text(encoding="utf-8")
    if "evidence(" not in text and path.stem != "link_shape":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Tuple) and len(node.elts) == 3:
            name, value, unit = node.elts
            texts = [part.value for part in (name, unit) if isinstance(part, ast.Constant)]
            if len(texts) == 2 and all(isinstance(part, str) for part in texts) and not isinstance(value, ast.Constant):
                yield str(texts[0])


@given(
    st.recursive(
        st.sampled_from(("1", "2.0", "-3", "true", "false", "'a'", "incident.score", "incident.affected_count")),
        lambda inner: st.one_of(
            st.builds(
                "{} {} {}".format,
                inner,
                st.sampled_from(("||", "&&", "==", "!=", "<", "<=", ">=", "+", "-", "*", "/", "%")),
                inner,
            ),
            st.builds("{}{}".format, st.sampled_from("!-"), inner),
            st.builds("({})".format, inner),
            st.builds("{} ? {} : {}".format, inner, inner, inner),
        ),
        max_leaves=8,
    )
)
def test_the_tree_binds_as_the_engine_does(source: str) -> None:
    try:
        condition = compile_condition(source)
    except ValueError:
        return
    told = facts_of(incident(numbers={"minimum_v": 11.0}))
    assert compile_condition(bracketed(condition.tree, source)).judge(told).met is condition.judge(told).met


def bracketed(node: Node, source: str) -> str:
    """Write a tree with brackets round each part, so that nothing is left to how strongly operators bind."""
    parts = [bracketed(part, source) for part in node.parts]
    match node.kind:
        case Kind.UNARY:
            return f"({node.value}{parts[0]})"
        case Kind.BINARY:
            return f"({parts[0]} {node.value} {parts[1]})"
        case Kind.CHOICE:
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
    return f"({source[node.start : node.end]})"


@given(st.text(alphabet="incident.numbers()[]{}<>=!&|'\"+-*/%?:, 019abk\n", max_size=60))
def test_any_text_is_either_a_condition_or_refused(source: str) -> None:
    try:
        condition = compile_condition(source)
    except ValueError:
        return
    condition.judge(facts_of(incident(Cause.POWER_BRAKE)))


def test_the_whole_terminal_program_of_the_cel_package_stays_unloaded() -> None:
    check = "import sys, rules.policy.loading as l; l.load_builtin_policies(); print('cel.cli' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_cel_package_can_still_be_imported_whole_afterwards() -> None:
    check = (
        "import rules.conditions.condition as c; c.compile_condition('true'); import cel; print(cel.evaluate('1 + 1'))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
