"""Which supplies share a bus."""

from dataclasses import replace

from analytics.connectivity.buses import Buses, bus_groups
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from tests.analytics.scenes import gpu, node_of, supply

NODE = Entity(kind=EntityKind.NODE, key="box", name="box")


def wired(*feeds: tuple[Entity, tuple[int, ...]]) -> Topology:
    gpus = tuple(gpu(number) for number in range(4))
    edges = [(NODE.id, one.id) for one, _ in feeds]
    edges += [(one.id, gpus[number].id) for one, fed in feeds for number in fed]
    return Topology(entities=(NODE, *(one for one, _ in feeds), *gpus), edges=tuple(edges))


def test_supplies_that_feed_the_same_gpus_share_a_bus() -> None:
    supplies = tuple(supply(number) for number in range(3))
    assert bus_groups(supplies, node_of(4, 3)).tolist() == [0, 0, 0]


def test_supplies_of_other_gpus_are_on_another_bus() -> None:
    supplies = tuple(supply(number) for number in range(4))
    topology = wired(*zip(supplies, ((0, 1), (0, 1), (2, 3), (2, 3)), strict=True))
    assert bus_groups(supplies, topology).tolist() == [0, 0, 1, 1]


def test_rails_of_another_nominal_voltage_are_on_another_bus() -> None:
    standby = replace(supply(1), tags=((NOMINAL_TAG, "12"),))
    main = replace(supply(0), tags=((NOMINAL_TAG, "54"),))
    assert bus_groups((main, standby), wired((main, (0, 1)), (standby, (0, 1)))).tolist() == [0, 1]


def test_a_supply_that_the_topology_does_not_know_is_alone() -> None:
    assert bus_groups((supply(0), supply(8), supply(9)), node_of(4, 1)).tolist() == [0, 1, 2]


def test_buses_are_worked_out_again_only_for_another_topology() -> None:
    supplies, topology = (supply(0), supply(1)), node_of(4, 2)
    first = Buses(topology=None, groups=bus_groups((), topology)).under(topology, supplies)
    assert first.under(topology, supplies) is first
    other = wired((supplies[0], (0, 1)), (supplies[1], (2, 3)))
    assert first.under(other, supplies).groups.tolist() == [0, 1]
