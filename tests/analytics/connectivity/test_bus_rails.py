"""Rails of the boards of a fleet, each with the supplies of its own node and bus."""

import tracemalloc

import numpy as np

from analytics.connectivity.bus_rails import BusRails
from analytics.fleet.topology import FeedsAndRacks, fleet_entity, fleet_topology
from telemetry.entities import Entity, Topology
from tests.analytics.detectors.bus_rail_scenes import RAILS, SUPPLIES, UNKNOWN_RAILS


def fleet(n_nodes: int, rails: tuple[Entity, ...] = RAILS) -> tuple[tuple[Entity, ...], Topology]:
    """Return four supplies and two rails of each node, in this order, and their topology."""
    nodes = [f"box{number}" for number in range(n_nodes)]
    parts = tuple(fleet_entity(one, node) for node in nodes for one in (*SUPPLIES, *rails))
    return parts, fleet_topology(nodes, parts, FeedsAndRacks())


def test_buses_of_one_name_on_two_nodes_are_two() -> None:
    rails = BusRails.of(*fleet(2))
    assert rails.places == (4, 5, 10, 11)
    amps = 10.0 ** np.arange(12.0)
    assert rails.sums(amps, np.ones(12, dtype=np.bool_)).tolist() == [11.0, 1.1e3, 1.1e7, 1.1e9]


def test_only_marked_values_are_summed() -> None:
    rails = BusRails.of(*fleet(1))
    known = np.array([False, True, False, False, True, True])
    amps = np.where(known, 7.0, np.nan)
    assert rails.sums(amps, known).tolist() == [7.0, 0.0]


def test_a_rail_of_an_unknown_bus_has_no_supplies() -> None:
    rails = BusRails.of(*fleet(2, UNKNOWN_RAILS))
    assert rails.places == (4, 5, 10, 11)
    assert rails.sums(np.ones(12), np.ones(12, dtype=np.bool_)).tolist() == [0.0] * 4


def test_the_rails_of_a_fleet_cost_memory_by_their_number_and_not_by_its_square() -> None:
    parts, topology = fleet(500)
    rails = BusRails.of(parts, topology)
    tracemalloc.start()
    rails.sums(np.ones(len(parts)), np.ones(len(parts), dtype=np.bool_))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < len(rails.places) * len(parts)
