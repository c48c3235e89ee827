"""Feeds and parents in a fleet, from tags and from the configuration, and names that are unique over nodes."""

from dataclasses import replace

import pytest

from analytics.connectivity import Kinship
from analytics.fleet.topology import FeedsAndRacks, at_home, fleet_entity, fleet_id, fleet_topology
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind
from tests.analytics.fleet.windows import gpu_of, supply_of

NODES = ("node1", "node2")
PARTS = tuple(part for node in NODES for part in (gpu_of(node, 0), gpu_of(node, 1), supply_of(node)))


def test_two_supplies_of_one_name_are_two_and_go_home_under_their_own() -> None:
    first, second = supply_of("node1"), supply_of("node2")
    assert first.id != second.id
    assert at_home(first.id, "node1") == at_home(second.id, "node2") == "supply:psu0"
    assert at_home(gpu_of("node1", 0).id, "node1") == gpu_of("node1", 0).id
    assert fleet_entity(first, "node1").key == first.key  # a name that holds already is kept
    assert fleet_id("node1", "", "") == "node:node1"


def test_a_supply_feeds_the_gpus_beside_it_and_no_others() -> None:
    kinship = Kinship.of(fleet_topology(NODES, PARTS, FeedsAndRacks()))
    assert kinship.gpus_under(supply_of("node1").id) == (gpu_of("node1", 0).id, gpu_of("node1", 1).id)
    assert kinship.top(gpu_of("node2", 0).id) == "node:node2"


def test_a_feed_stands_above_the_supplies_of_its_nodes_and_changes_no_node() -> None:
    kinship = Kinship.of(fleet_topology(NODES, PARTS, FeedsAndRacks(feeds={"pdu-a": NODES}, racks={"r1": NODES})))
    assert {supply_of("node1").id, supply_of("node2").id} <= kinship.descendants("supply:feed/pdu-a")
    assert len(kinship.gpus_under("supply:feed/pdu-a")) == 4
    assert kinship.descendants("fan:rack/r1") >= {"node:node1", "node:node2"}
    for part in PARTS:
        assert kinship.top(part.id) == f"node:{part.tag('node')}"
    assert kinship.top("node:node1") == "node:node1"  # though a rack's air stands above it


def test_a_node_without_supply_telemetry_hangs_on_its_feed_itself() -> None:
    gpus = (gpu_of("node1", 0), gpu_of("node2", 0))
    kinship = Kinship.of(fleet_topology(NODES, gpus, FeedsAndRacks(feeds={"pdu-a": ("node1",)})))
    assert kinship.gpus_under("supply:feed/pdu-a") == (gpu_of("node1", 0).id,)


def test_tags_of_a_node_name_its_feed_and_rack_unless_configured() -> None:
    node = fleet_entity(
        Entity(kind=EntityKind.NODE, key="node1", name="node1", tags=(("pdu", "b"), ("rack", "7"))), "node1"
    )
    reported = FeedsAndRacks(feeds={"a": ("node2",)}).with_tags([node])
    assert reported == FeedsAndRacks(feeds={"a": ("node2",), "b": ("node1",)}, racks={"7": ("node1",)})
    assert FeedsAndRacks(feeds={"a": ("node1",)}).with_tags([node]).feeds == {"a": ("node1",)}


def test_a_name_of_a_node_that_is_not_there_is_left_out() -> None:
    topology = fleet_topology(NODES, PARTS, FeedsAndRacks(feeds={"pdu-a": ("node1", "node9")}))
    assert Kinship.of(topology).gpus_under("supply:feed/pdu-a") == (gpu_of("node1", 0).id, gpu_of("node1", 1).id)


@pytest.mark.parametrize("tag", ["gpu", "key"])
def test_a_link_hangs_on_the_gpu_that_its_tag_or_its_key_names(tag: str) -> None:
    card = gpu_of("node1", 0)
    link = Entity(kind=EntityKind.LINK, key=f"{card.key}/nvlink0", name="gpu0-nvlink0")
    link = fleet_entity(replace(link, tags=(("gpu", card.key),)) if tag == "gpu" else link, "node1")
    kinship = Kinship.of(fleet_topology(NODES, (*PARTS, link), FeedsAndRacks()))
    assert link.id in kinship.descendants(card.id)


def test_only_the_rails_that_gpus_hang_on_feed_them() -> None:
    high, low = (
        replace(supply_of("node1", number), tags=(("node", "node1"), (NOMINAL_TAG, nominal_v)))
        for number, nominal_v in enumerate(("54", "12"))
    )
    kinship = Kinship.of(fleet_topology(NODES, (*PARTS[:2], high, low), FeedsAndRacks()))
    assert len(kinship.gpus_under(high.id)) == 2
    assert kinship.gpus_under(low.id) == (), "a node with 54 V makes its 12 V from it"
