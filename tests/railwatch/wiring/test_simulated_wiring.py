"""The wiring of a simulated node as a run describes it."""

from config.topology import TopologySection
from railwatch.wiring.simulated_wiring import described_topology
from simulator.files.node import load_node
from simulator.runs.topology import entities_of
from telemetry.entities import EntityKind


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
