"""Tests of a described wiring against the GPUs and supplies of a node."""

from dataclasses import replace

import pytest

from config.topology import TopologySection
from config.topology_match import mismatches
from physics.feeding import with_described_tags
from telemetry.entities import (
    BOARD_PLACE,
    NOMINAL_SOURCE_TAG,
    NOMINAL_TAG,
    PLACE_TAG,
    SOURCE_TAG,
    Entity,
    EntityKind,
    Topology,
)

_SECTION = TopologySection.model_validate(
    {
        "gpu_count": 2,
        "supplies": [{"name": "psu0"}, {"name": "psu1", "sensors": ["ina1"]}],
        "buses": [
            {"name": "main", "nominal_v": 12, "supplies": ["psu0", "psu1"], "branches": [{"gpus": ["gpu0", "gpu1"]}]}
        ],
    }
)


def _node(*supplies: str, gpus: int = 2, nominal_v: str = "12") -> Topology:
    tags = ((NOMINAL_TAG, nominal_v), (NOMINAL_SOURCE_TAG, "reading"))
    return Topology(
        entities=(
            *(Entity(kind=EntityKind.SUPPLY, key=name, name=name, tags=tags) for name in supplies),
            *(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(gpus)),
        ),
        edges=(),
    )


def _found(topology: Topology, section: TopologySection = _SECTION) -> list[str]:
    wiring = section.wiring()
    assert wiring is not None
    return [str(problem) for problem in mismatches(wiring, topology, gpu_count=section.gpu_count)]


@pytest.mark.parametrize("supplies", [("psu0", "ina1"), (), ("psu0",)], ids=["all", "none measured", "one measured"])
def test_a_description_fits_a_node_that_measures_its_supplies_or_some(supplies: tuple[str, ...]) -> None:
    assert _found(_node(*supplies)) == []


def test_a_number_of_gpus_that_the_node_does_not_have_is_named() -> None:
    everything = {**_SECTION.model_dump(mode="json"), "gpu_count": 3}
    everything["buses"][0]["branches"][0]["gpus"] = "all"
    found = _found(_node("psu0", "ina1"), TopologySection.model_validate(everything))
    assert found == ["gpu_count: got 3; expected 2, the GPUs of the node"]


def test_a_nominal_voltage_that_the_sensors_contradict_is_named_for_each_supply() -> None:
    found = _found(_node("psu0", "ina1", nominal_v="54"))
    assert found == [
        "supplies[0].nominal_v: got 12 V; expected 54 V, by the reading of psu0",
        "supplies[1].nominal_v: got 12 V; expected 54 V, by the reading of ina1",
    ]


def test_a_wrong_description_is_found_on_a_node_that_is_tagged_by_it() -> None:
    wiring = _SECTION.wiring()
    assert wiring is not None
    node = _node("psu0", "ina1", nominal_v="54")
    described = replace(node, entities=tuple(with_described_tags(one, wiring) for one in node.entities))
    assert {one.nominal_v for one in described.of_kind(EntityKind.SUPPLY)} == {12.0}, "the configuration wins"
    assert _found(described) == _found(node)
    assert len(_found(described)) == 2


def test_a_sensor_that_the_node_lacks_is_named_with_those_that_are_left() -> None:
    found = _found(_node("psu0", "psu1"))
    assert found == ["supplies[1].sensors: no sensor 'ina1'; expected a measured supply that no other names: psu1"]


def test_a_rail_of_a_bus_that_the_controller_lacks_or_that_has_another_voltage_is_named() -> None:
    described = _SECTION.model_dump(mode="json")
    described["buses"][0]["sensors"] = ["P12V_A", "P54V"]
    node = _node("psu0", "ina1")
    tags = ((NOMINAL_TAG, "54"), (SOURCE_TAG, "bmc"), (PLACE_TAG, BOARD_PLACE))
    rail = Entity(kind=EntityKind.SUPPLY, key="bmc-p54v", name="P54V (bmc)", tags=tags)
    section = TopologySection.model_validate(described)
    assert _found(node, section) == []
    assert _found(Topology(entities=(*node.entities, rail)), section) == [
        "buses[0].sensors[0]: no sensor 'P12V_A'; expected a rail of the board: P54V (bmc)",
        "buses[0].sensors[1]: got P54V (bmc) of 54 V; expected a rail of 12 V, as bus main",
    ]


def test_rails_that_feed_no_gpu_are_not_offered() -> None:
    assert _found(_node("psu0", "3v3", nominal_v="3.3"))[1:] == []
