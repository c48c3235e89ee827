"""Reach: the alternatives in which one incident meets several conditions."""

from typing import Any

import pytest

from rules.checking.reach import OPEN_OR_MITIGATED, describe_met, met_together
from rules.conditions.document import parse_condition
from telemetry.records import Cause


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
