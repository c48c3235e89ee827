"""The wiring of a simulated node as a run describes it."""

from pathlib import Path

import pytest

from agent.collectors.bmc.layout import lay_out
from agent.collectors.bmc.point import Place, Point, Quantity
from agent.collectors.hwmon.rails import rail_entities
from agent.collectors.hwmon.tree import survey_rails
from config.topology import TopologySection
from physics.feeding import feeding_of, with_described_tags
from railwatch.wiring.simulated_wiring import described_topology, supply_names
from simulator.files.node import load_node
from simulator.files.sensor import load_sensor
from simulator.runs.topology import entities_of
from simulator.served.board.sensors import board_sensors
from telemetry.entities import EntityKind
from tests.simulator.served_plant import served_plant


def test_a_node_with_one_bus_is_left_to_inference() -> None:
    assert described_topology(load_node("v100x4")) == TopologySection()


def test_a_node_with_several_buses_is_described_as_it_is() -> None:
    node = load_node("v100x4")
    node = node.model_copy(
        update={
            "slots": tuple(
                slot.model_copy(update={"bus": "bus1" if place == 3 else "bus0"})
                for place, slot in enumerate(node.slots)
            ),
            "supply": node.supply.model_copy(
                update={
                    "units": tuple(
                        unit.model_copy(update={"bus": f"bus{min(place, 1)}"})
                        for place, unit in enumerate(node.supply.units)
                    )
                }
            ),
        }
    )
    wiring = described_topology(node).wiring()
    assert wiring is not None
    entities = entities_of(node)
    for supply in entities.supplies:
        bus = wiring.bus_of(supply.key)
        assert bus is not None
        true = [one for one in entities.topology.children(supply.id) if one.kind is EntityKind.GPU]
        assert list(wiring.gpus_of(bus, entities.gpus)) == true


@pytest.mark.parametrize("name", ["h100x8-two-bus", "v100x4-two-bus"])
def test_every_rail_that_the_agent_finds_on_a_node_with_two_buses_feeds_the_gpus_of_its_bus(
    tmp_path: Path, name: str
) -> None:
    node = load_node(name)
    with served_plant(tmp_path, node=node) as plant:
        plant.advance(1000)
        rails = rail_entities(survey_rails(plant.served.sysfs_root).rails)
    entities = entities_of(node)
    feeding = feeding_of(described_topology(node).wiring(), rails, entities.gpus)
    for rail, supply in zip(rails, entities.supplies, strict=True):
        true = {one.id for one in entities.topology.children(supply.id) if one.kind is EntityKind.GPU}
        assert {fed for feeder, fed in feeding.edges if feeder == rail.id} == true
        assert true != {gpu.id for gpu in entities.gpus}


@pytest.mark.parametrize("name", ["h100x8-two-bus", "a100x16"])
def test_the_rails_that_a_simulated_controller_serves_are_tied_to_their_buses_as_in_a_recording(name: str) -> None:
    node = load_node(name)
    assert node.sensors.bmc is not None
    served = [one for one in board_sensors(node, load_sensor(node.sensors.bmc)) if one.name.startswith("P54V")]
    points = tuple(
        Point(key=one.name, name=one.name, quantity=Quantity.VOLTAGE, place=Place.BOARD, limits=(51.3, 56.7))
        for one in served
    )
    read = lay_out(points, node=node.name, with_inlet=False).supplies
    wiring, recorded = described_topology(node).wiring(), entities_of(node)
    assert read is not None
    assert wiring is not None
    rails = tuple(with_described_tags(one, wiring) for one in read.spec.entities)
    assert [(one.key, one.name, dict(one.tags)) for one in rails] == [
        (one.key, one.name, dict(one.tags)) for one in recorded.rails
    ]
    edges = feeding_of(wiring, rails, recorded.gpus).edges
    true = [edge for edge in recorded.topology.edges if edge[0] in {one.id for one in rails}]
    assert sorted(edges) == sorted(true)


@pytest.mark.parametrize("name", ["h100x8", "h100x8-two-bus", "v100x4"])
def test_every_rail_that_the_agent_finds_has_the_name_of_its_supply(tmp_path: Path, name: str) -> None:
    node = load_node(name)
    with served_plant(tmp_path, node=node) as plant:
        plant.advance(1000)
        rails = rail_entities(survey_rails(plant.served.sysfs_root).rails)
    named = [supply_names(node)[rail.key] for rail in rails]
    assert named == [unit.name for unit in node.supply.units]
