"""The policies that come with railwatch, their schema, and the runner of their cases."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml

import rules
from rules.conditions.facts import FACTS
from rules.limits.node import LimitSettings
from rules.policy.case_document import ExpectationDocument
from rules.policy.cases import run_case, run_cases
from rules.policy.document import policy_schema, policy_schema_text
from rules.policy.loading import builtin_policy_files, load_builtin_policies, load_policies
from rules.policy.model import Policy, PolicyStatus, Verb
from telemetry.records import Cause

POLICIES = {policy.id: policy for policy in load_builtin_policies()}


def test_every_policy_has_the_name_of_its_file() -> None:
    assert sorted(POLICIES) == sorted(path.stem for path in builtin_policy_files())
    assert set(POLICIES) == {
        "supply-sag-clock-cap",
        "power-brake-clock-cap",
        "thermal-interface-clock-cap",
        "thermal-margin-clock-cap",
        "gpu-lost-notify",
        "gpu-error-notify",
        "slow-fault-notify",
        "supply-sag-notify",
        "supply-sag-power-cap",
        "supply-sag-checkpoint",
        "supply-sag-drain",
        "supply-sag-page",
        "weak-supply-start-ramp",
        "airflow-fan",
        "airflow-clock-cap",
        "gpu-lost-drain",
        "joint-ageing-clock-cap",
        "over-rating-notify",
        "over-rating-clock-cap",
        "over-rating-gpu-clock-cap",
    }


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_case_of_every_policy_passes(policy: Policy) -> None:
    for result in run_cases([policy]):
        assert result.passed, f"{result.where}: {result.case}: {result.problems}"


@pytest.mark.parametrize("path", builtin_policy_files(), ids=lambda path: path.stem)
def test_every_policy_fits_the_schema_for_editors(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(policy_schema())
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), policy_schema())


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    document = yaml.safe_load(builtin_policy_files()[0].read_text(encoding="utf-8"))
    for change in ({"colour": "red"}, {"status": "new"}, {"then": {"action": "notify", "cooldown": 10}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **change}, policy_schema())


def test_the_schema_bounds_what_the_loader_bounds() -> None:
    text = policy_schema_text()
    assert not re.findall(r'"(gt|ge|lt|le)":', text), "words of pydantic, to which no other checker listens"
    clock = policy_schema()["$defs"]["ClockDocument"]["properties"]["hold_v"]["anyOf"][0]
    assert (clock["exclusiveMinimum"], clock["maximum"]) == (0, 60)


def test_the_committed_schema_is_in_step() -> None:
    committed = Path(str(rules.__file__)).parent / "policy" / "policy.schema.json"
    assert committed.read_text(encoding="utf-8") == policy_schema_text()
    json.loads(policy_schema_text())


def test_only_what_answers_a_supply_or_the_air_reaches_beyond_the_gpu_at_fault() -> None:
    reach = {name: policy.then.target for name, policy in POLICIES.items() if policy.then.target is not None}
    assert reach == {
        "supply-sag-clock-cap": "all_gpus_of_supply",
        "power-brake-clock-cap": "all_gpus_of_supply",
        "thermal-interface-clock-cap": "this_gpu",
        "thermal-margin-clock-cap": "this_gpu",
        "supply-sag-power-cap": "all_gpus_of_supply",
        "weak-supply-start-ramp": "all_gpus_of_supply",
        "joint-ageing-clock-cap": "all_gpus_of_supply",
        "over-rating-clock-cap": "all_gpus_of_supply",
        "over-rating-gpu-clock-cap": "this_gpu",
        "airflow-fan": "all_gpus",
        "airflow-clock-cap": "all_gpus",
    }


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.SENSOR_LOST, Cause.SENSOR_FAULT, Cause.NOVELTY}))
def test_every_cause_of_a_node_but_none_of_its_sensors_has_an_answer(cause: Cause) -> None:
    assert any(
        cause.value in item.get("cause", ()) for policy in POLICIES.values() for item in policy.when.alternatives
    )


def test_a_deprecated_policy_is_still_tested() -> None:
    policy = replace(POLICIES["gpu-lost-notify"], status=PolicyStatus.DEPRECATED)
    assert all(result.passed for result in run_cases([policy]))


def test_a_case_that_expects_something_else_states_what_came() -> None:
    policy = POLICIES["thermal-margin-clock-cap"]
    case = policy.cases[0]
    (expected,) = case.expect
    for wrong, texts in (
        (expected.model_copy(update={"clock_mhz": 1000.0}), "at 1000 MHz after 0 s, got clock_cap for 1 at 1297.5 MHz"),
        (expected.model_copy(update={"targets": 4}), "clock_cap for 4"),
        (expected.model_copy(update={"at": 9.0}), "after 9 s"),
    ):
        result = run_case(policy, case.model_copy(update={"expect": (wrong,)}))
        assert not result.passed
        assert texts in result.problems[0]
    quiet = run_case(policy, case.model_copy(update={"expect": ()}))
    assert "expected nothing more" in quiet.problems[0]
    extra = ExpectationDocument(action=Verb.NOTIFY)
    missing = run_case(policy, case.model_copy(update={"expect": (*case.expect, extra)}))
    assert missing.problems == ("expected notify after 0 s, got nothing",)


def test_the_reference_names_every_key_every_fact_and_every_rail() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    schema = policy_schema()
    keys = {key for definition in schema["$defs"].values() for key in definition.get("properties", {})}
    limits = set(LimitSettings.model_fields)
    for name in keys | set(schema["properties"]) | set(FACTS) | limits:
        assert re.search(rf"\b{name}\b", page), f"{name} is not in docs/reference/policy.md"


def test_the_example_of_the_page_on_writing_a_policy_loads_and_passes(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "write-a-policy.md").read_text(encoding="utf-8")
    example = tmp_path / "example.yaml"
    example.write_text(page.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    assert all(result.passed for result in run_cases(load_policies([example])))
