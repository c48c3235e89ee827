"""Which supplies share a bus."""

from dataclasses import replace

from analytics.connectivity.buses import Buses, bus_groups
from telemetry.entities import NOMINAL_TAG, SOURCE_TAG, Entity, EntityKind, Topology
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


def unknown() -> Buses:
    return Buses(topology=None, groups=bus_groups((), node_of(1, 1)), sharing=bus_groups((), node_of(1, 1)))


def test_buses_are_worked_out_again_only_for_another_topology() -> None:
    supplies, topology = (supply(0), supply(1)), node_of(4, 2)
    first = unknown().under(topology, supplies)
    assert first.under(topology, supplies) is first
    other = wired((supplies[0], (0, 1)), (supplies[1], (2, 3)))
    assert first.under(other, supplies).groups.tolist() == [0, 1]


def of_rail(number: int, nominal_v: str, source: str = "") -> Entity:
    tags = ((NOMINAL_TAG, nominal_v), (SOURCE_TAG, source))
    return replace(supply(number), tags=tuple((name, value) for name, value in tags if value))


def sharing(*feeds: tuple[Entity, tuple[int, ...]]) -> list[int]:
    found: list[int] = unknown().under(wired(*feeds), tuple(one for one, _ in feeds)).sharing.tolist()
    return found


HALVES = ((0, 1), (0, 1), (2, 3), (2, 3))


def test_supplies_of_two_known_buses_take_over_within_their_own() -> None:
    assert sharing(*((of_rail(n, "54"), HALVES[n]) for n in range(4))) == [0, 0, 1, 1]
    assert sharing(*((of_rail(n, ""), HALVES[n]) for n in range(4))) == [0, 0, 1, 1], "edges alone tell them apart"


def test_supplies_of_a_node_without_described_wiring_take_over_from_each_other() -> None:
    assert sharing(*((of_rail(n, "54"), (0, 1, 2, 3)) for n in range(4))) == [0, 0, 0, 0]


def test_a_supply_of_an_unknown_bus_may_take_over_from_any_that_it_could_share_one_with() -> None:
    named = [(of_rail(n, "54"), HALVES[n]) for n in range(4)]
    assert sharing(*named, (of_rail(4, "54"), (0, 1, 2, 3))) == [0, 0, 0, 0, 0], "it feeds the GPUs of both buses"
    assert sharing(*named, (of_rail(4, ""), (2, 3))) == [0, 0, 1, 1, 1], "its voltage is unknown"


def test_rails_of_another_voltage_or_another_meter_take_over_nothing() -> None:
    main, low, board = of_rail(0, "54"), of_rail(1, "12"), of_rail(2, "54", source="bmc")
    assert sharing((main, (0, 1)), (low, (0, 1)), (board, (0, 1))) == [0, 1, 2]
    assert sharing((main, (0, 1)), (of_rail(1, "48"), (0, 1))) == [0, 0], "a loaded rail of 54 V reads as one of 48 V"


def test_supplies_that_feed_no_gpu_take_over_within_their_rail() -> None:
    assert sharing((of_rail(0, "12"), ()), (of_rail(1, "12"), ()), (of_rail(2, "54"), ())) == [0, 0, 1]


def test_supplies_of_another_node_take_over_nothing() -> None:
    nodes = tuple(replace(NODE, key=name, name=name) for name in ("box1", "box2"))
    held = tuple(supply(n) for n in range(2))
    edges = tuple((node.id, one.id) for node, one in zip(nodes, held, strict=True))
    assert unknown().under(Topology(entities=(*nodes, *held), edges=edges), held).sharing.tolist() == [0, 1]
