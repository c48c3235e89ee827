"""Tests of the described wirings of nodes in the fleet: whose topology and detectors they change."""

import json
from collections.abc import Sequence
from dataclasses import replace

from analytics.connectivity import Kinship
from analytics.detectors.supply_margins import SupplyMargins
from analytics.fleet.judge import FleetJudge, FleetSettings
from analytics.fleet.snapshot import pack_judge, unpack_judge
from analytics.fleet.topology import NOT_DESCRIBED, FeedsAndRacks, fleet_topology
from analytics.fleet.window import FleetWindow
from analytics.fleet.wiring import fleet_wiring
from analytics.shards.packing import archive, opened
from physics.wiring import Branch, Bus, MainsFeed, Origin, Plugs, Shelf, WiredSupply, Wiring
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind
from tests.analytics.fleet.windows import gpu_of, supply_of, table_of, window_of

NODES = ("node1", "node2")


def rail_of(node: str, number: int, nominal_v: str = "54") -> Entity:
    one = supply_of(node, number)
    return replace(one, tags=(*one.tags, (NOMINAL_TAG, nominal_v)))


PARTS = tuple(
    part
    for node in NODES
    for part in (rail_of(node, 0), rail_of(node, 1), rail_of(node, 2, "12"), *(gpu_of(node, n) for n in range(4)))
)
PLUGS = (Plugs(name="XT60", rating_a=30.0),)
TWO_BUSES = Wiring(
    origin=Origin.CONFIGURED,
    feeds=(MainsFeed(name="A", nominal_v=230.0, breaker_a=16.0),),
    shelves=(Shelf(name="shelf", feed="A"),),
    supplies=(
        WiredSupply(name="left", sensors=("psu0",), nominal_v=54.0, shelf="shelf", feed="A"),
        WiredSupply(name="right", sensors=("psu1", "psu9"), nominal_v=54.0, plugs=PLUGS),
        WiredSupply(name="converter", sensors=("psu2",), nominal_v=12.0, from_bus="main"),
    ),
    buses=(
        Bus(name="main", nominal_v=54.0, supplies=("left",), branches=(Branch(gpus=("0", "gpu1")),)),
        Bus(name="side", nominal_v=54.0, supplies=("right",), branches=(Branch(gpus=("2", "3"), plugs_each=PLUGS),)),
        Bus(name="board", nominal_v=12.0, supplies=("converter",), branches=(Branch(board="host"),)),
    ),
)


def kinship_of(**wirings: Wiring) -> Kinship:
    return Kinship.of(fleet_topology(NODES, PARTS, FeedsAndRacks(), wirings))


def gpus(node: str, *numbers: int) -> tuple[str, ...]:
    return tuple(gpu_of(node, number).id for number in numbers)


def test_supplies_of_a_described_node_feed_the_gpus_of_their_bus() -> None:
    kinship = kinship_of(node1=TWO_BUSES)
    assert kinship.gpus_under("supply:node1/psu0") == gpus("node1", 0, 1)
    assert kinship.gpus_under("supply:node1/psu1") == gpus("node1", 2, 3)


def test_a_converter_is_behind_the_supplies_of_the_bus_that_it_draws_from() -> None:
    kinship = kinship_of(node1=TWO_BUSES)
    assert "supply:node1/psu2" in kinship.descendants("supply:node1/psu0")
    assert "supply:node1/psu2" not in kinship.descendants("supply:node1/psu1")


def test_a_shelf_holds_its_modules_and_is_one_of_its_node() -> None:
    kinship = kinship_of(node1=TWO_BUSES, node2=TWO_BUSES)
    assert "supply:node2/psu0" in kinship.descendants("supply:node2/shelf")
    assert kinship.top("supply:node2/shelf") == "node:node2"
    assert "supply:node2/psu0" not in kinship.descendants("supply:node1/shelf")


def test_a_node_that_describes_nothing_is_wired_as_before() -> None:
    before = fleet_topology(NODES, PARTS, FeedsAndRacks(), NOT_DESCRIBED)
    assert before == fleet_topology(NODES, PARTS, FeedsAndRacks())
    both = kinship_of(node1=TWO_BUSES).topology
    assert {edge for edge in both.edges if "node2" in edge[0]} == {edge for edge in before.edges if "node2" in edge[0]}


def test_a_wiring_names_parts_of_its_own_node_alone() -> None:
    greedy = replace(
        TWO_BUSES,
        supplies=(*TWO_BUSES.supplies, WiredSupply(name="theirs", sensors=("node2/psu0", "node2/psu1"))),
        buses=(
            *TWO_BUSES.buses[1:],
            Bus(name="main", nominal_v=54.0, supplies=("left", "theirs"), branches=(Branch(gpus=None),)),
            Bus(name="far", nominal_v=54.0, supplies=(), branches=(Branch(gpus=("GPU-node2-0", "node2/gpu1")),)),
        ),
    )
    kinship = kinship_of(node1=greedy)
    assert kinship.gpus_under("supply:node1/psu0") == gpus("node1", 0, 1, 2, 3)
    assert kinship.gpus_under("supply:node2/psu0") == gpus("node2", 0, 1, 2, 3)
    placed = fleet_wiring(PARTS, kinship.topology, {"node1": greedy})
    assert placed is not None
    assert all(sensor.startswith("node1/") for one in placed.supplies[:4] for sensor in one.sensors)
    named = {gpu for bus in placed.buses for branch in bus.branches for gpu in branch.gpus or ()}
    assert named == {f"GPU-node1-{n}" for n in range(4)}


def test_the_wiring_of_the_fleet_has_every_node_and_names_that_are_unique() -> None:
    topology = kinship_of(node1=TWO_BUSES).topology
    placed = fleet_wiring(PARTS, topology, {"node1": TWO_BUSES})
    assert placed is not None
    names = [one.name for one in placed.supplies]
    assert names == ["node1/left", "node1/right", "node1/converter", "node2/psu0", "node2/psu1"]
    assert placed.supplies[0].shelf == "node1/shelf"
    assert placed.supplies[1].sensors == ("node1/psu1",), "a sensor that is not measured shows nothing"
    assert placed.supplies[2].from_bus == "node1/main"
    assert [bus.supplies for bus in placed.buses][:2] == [("node1/left",), ("node1/right",)]
    assert placed.buses[3].supplies == ("node2/psu0", "node2/psu1"), "by the edges of the node"
    assert (placed.feeds[0].name, placed.shelves[0].feed) == ("node1/A", "node1/A")
    assert fleet_wiring(PARTS, topology, {}) is None


def wired(judge: FleetJudge) -> tuple[str, ...]:
    """Return the supplies that the detectors of margins know by a description."""
    found = next(one for one in judge.panel.detectors if isinstance(one, SupplyMargins)).wiring
    return () if found is None else tuple(one.name for one in found.supplies)


def window(first_s: int, *, nodes: Sequence[str] = NODES, **wirings: Wiring | None) -> FleetWindow:
    here = [part for part in PARTS if part.tag("node") in nodes]
    supplies = [part for part in here if part.kind is EntityKind.SUPPLY]
    volts = [part.nominal_v or 0.0 for part in supplies]
    cards = [part for part in here if part.kind is EntityKind.GPU]
    tables = {
        EntityKind.SUPPLY: table_of(EntityKind.SUPPLY, supplies, {"voltage_v": volts, "current_a": 9.0}, seconds=5),
        EntityKind.GPU: table_of(EntityKind.GPU, cards, {"power_w": 250.0}, seconds=5),
    }
    return replace(window_of(first_s, tables), wirings=wirings)


def test_a_node_is_judged_with_its_newest_wiring_until_it_describes_none() -> None:
    judge = FleetJudge(FleetSettings())
    judge.step(window(0))
    assert wired(judge) == ()
    judge.step(window(5, node1=TWO_BUSES))
    assert "node1/left" in wired(judge)
    topology = judge.state.topology
    assert judge.state.kinship.gpus_under("supply:node1/psu0") == gpus("node1", 0, 1)
    judge.step(window(10, node1=TWO_BUSES))
    assert judge.state.topology is topology, "the same wiring again changes nothing"
    judge.step(window(15, node1=None))
    assert wired(judge) == ()
    assert judge.state.kinship.gpus_under("supply:node1/psu0") == gpus("node1", 0, 1, 2, 3)


def test_a_wiring_that_comes_before_the_first_row_of_its_node_is_kept_for_it() -> None:
    judge = FleetJudge(FleetSettings())
    judge.step(window(0, nodes=NODES[:1], node2=TWO_BUSES))
    assert wired(judge) == ()
    judge.step(window(5))
    assert "node2/left" in wired(judge)


def test_wirings_of_nodes_that_never_come_do_not_grow_without_end() -> None:
    judge = FleetJudge(FleetSettings())
    names = [f"stranger{n}" for n in range(5000)]
    judge.step(replace(window(0), wirings={"node1": TWO_BUSES, **dict.fromkeys(names, TWO_BUSES)}))
    assert len(judge.state.wirings) < 300
    assert "node1" in judge.state.wirings


def test_a_loop_that_goes_on_from_its_state_knows_the_wirings() -> None:
    judge = FleetJudge(FleetSettings())
    judge.step(window(0, node1=TWO_BUSES))
    again, reason = unpack_judge(FleetSettings(), pack_judge(judge))
    assert (reason, again.state.wirings) == ("", {"node1": TWO_BUSES})
    assert wired(again) == wired(judge)
    assert again.state.topology == judge.state.topology


def test_a_state_of_before_has_no_wirings() -> None:
    judge = FleetJudge(FleetSettings())
    judge.step(window(0))
    head, arrays = opened(pack_judge(judge))
    earlier = {key: value for key, value in json.loads(json.dumps(head)).items() if key != "wirings"}
    again, reason = unpack_judge(FleetSettings(), archive(earlier, arrays))
    assert (reason, again.state.wirings) == ("", {})
