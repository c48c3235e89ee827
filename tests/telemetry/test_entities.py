"""One entity that several sources describe."""

import pytest

from telemetry.entities import Entity, EntityKind, merged_entities


def supply(*tags: tuple[str, str], name: str = "psu0") -> Entity:
    return Entity(kind=EntityKind.SUPPLY, key="psu0", name=name, tags=tags)


def test_an_entity_has_the_tags_of_all_its_mentions_and_the_later_one_wins() -> None:
    rail = supply(("sensor", "pmbus"), ("nominal_v", "54"))
    board = supply(("sensor", "ipmi"), ("slot", "3"), name="PS0")
    node = Entity(kind=EntityKind.NODE, key="psu0", name="psu0")
    found = merged_entities([rail, node, board])
    assert list(found) == ["supply:psu0", "node:psu0"]
    assert dict(found["supply:psu0"].tags) == {"sensor": "ipmi", "nominal_v": "54", "slot": "3"}
    assert found["supply:psu0"].name == "PS0"
    assert merged_entities([board, rail])["supply:psu0"].nominal_v == 54.0


@pytest.mark.parametrize("tag", ["", "fifty-four", "nan", "inf", "0", "-48"])
def test_a_tag_that_is_no_voltage_names_no_nominal_voltage(tag: str) -> None:
    assert supply(("nominal_v", tag)).nominal_v is None


def test_an_entity_that_is_mentioned_alike_is_unchanged() -> None:
    rail = supply(("sensor", "pmbus"))
    assert merged_entities([rail, supply(("sensor", "pmbus"))]) == {rail.id: rail}
