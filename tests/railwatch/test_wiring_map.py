"""Wiring in the form that the page draws."""

from dataclasses import replace

import pytest

from dashboards.page.wiring_map import MapFeed, MapPlugs
from physics.breakers import BreakerCurve
from physics.wiring import Branch, Bus, MainsFeed, Origin, Plugs, Redundancy, Shelf, WiredSupply, Wiring
from railwatch.operator.wiring_map import wired_topology, wiring_map
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Entity, EntityKind, Topology

NODE = Entity(kind=EntityKind.NODE, key="box", name="box")
GPUS = tuple(
    Entity(kind=EntityKind.GPU, key=f"GPU-{n:08x}", name=f"gpu{n}", tags=(("pci", f"0000:{n + 16:02x}:00.0"),))
    for n in range(4)
)
RAILS = tuple(
    Entity(
        kind=EntityKind.SUPPLY,
        key=f"psu{n}",
        name=f"psu{n}",
        tags=((NOMINAL_TAG, "12"), (NOMINAL_SOURCE_TAG, "label")),
    )
    for n in range(2)
)
METER = Entity(kind=EntityKind.SUPPLY, key="pdu0", name="pdu0")
MEASURED = {rail.id for rail in RAILS}
EVERY_EDGE = tuple((rail.id, gpu.id) for rail in RAILS for gpu in GPUS)


def topology(*edges: tuple[str, str]) -> Topology:
    return Topology(entities=(NODE, *RAILS, METER, *GPUS), edges=((NODE.id, GPUS[0].id), *edges))


SUPPLIES = (
    WiredSupply(
        name="psu0",
        sensors=("ina0", "psu0"),
        rated_w=1100.0,
        feed="A",
        shelf="shelf0",
        inlet=Plugs(name="C13", rating_a=10.0),
        plugs=(Plugs(name="lug-M6", rating_a=100.0), Plugs(name="XT60", count=2, rating_a=30.0)),
    ),
    WiredSupply(name="psu1", sensors=("psu1",)),
    WiredSupply(name="ibc0", sensors=(), from_bus="main"),
)
MAIN = Bus(
    name="main",
    nominal_v=None,
    supplies=("psu0", "psu1"),
    branches=(Branch(gpus=("0", "1"), plugs_each=(Plugs(name="12VHPWR", rating_a=50.0),)), Branch(fans=True)),
    redundancy=Redundancy.N_PLUS_1,
)
SIDE = Bus(name="side", nominal_v=5.0, supplies=("ibc0",), branches=(Branch(gpus=("gpu2",), board="riser"),))
DESCRIBED = Wiring(
    origin=Origin.CONFIGURED,
    supplies=SUPPLIES,
    buses=(MAIN, SIDE),
    feeds=(MainsFeed(name="A", nominal_v=230.0, breaker_a=16.0, curve=BreakerCurve.C),),
    shelves=(Shelf(name="shelf0", rated_w=3000.0, feed="A"),),
)


def test_without_a_description_and_with_every_edge_the_wiring_is_inferred() -> None:
    shown = wiring_map(wired_topology(topology(*EVERY_EDGE), None, MEASURED))
    assert (shown.origin, [bus.name for bus in shown.buses]) == ("inferred", ["12 V"])
    assert shown.buses[0].branches[0].gpus == tuple(gpu.id for gpu in GPUS)
    assert "feeds, breakers, plugs and redundancy" in shown.unknown


def test_edges_that_differ_between_rails_of_one_voltage_are_two_buses() -> None:
    edges = tuple((RAILS[number // 2].id, gpu.id) for number, gpu in enumerate(GPUS))
    shown = wiring_map(wired_topology(topology(*edges), None, MEASURED))
    assert shown.origin == "recorded"
    assert [(bus.supplies, len(bus.gpus)) for bus in shown.buses] == [(("psu0",), 2), (("psu1",), 2)]


def test_a_meter_that_shows_no_output_is_no_supply_of_the_map() -> None:
    shown = wiring_map(wired_topology(topology(*EVERY_EDGE), None, MEASURED))
    assert [supply.name for supply in shown.supplies] == ["psu0", "psu1"]


def test_a_described_supply_carries_its_plugs_ratings_and_the_entities_that_show_it() -> None:
    first, second, converter = wiring_map(wired_topology(topology(*EVERY_EDGE), DESCRIBED, MEASURED)).supplies
    assert first.label == "PSU 0"
    assert first.entities == ("supply:psu0",)
    assert (first.rated_w, first.nominal_v, first.feed, first.shelf) == (1100.0, 12.0, "A", "shelf0")
    assert first.inlet == MapPlugs(label="C13", rating_a=10.0)
    assert first.plugs == (MapPlugs(label="lug-M6", rating_a=100.0), MapPlugs(label="2x XT60", rating_a=60.0))
    assert (second.rated_w, second.feed, second.plugs) == (None, "", ())
    assert (converter.from_bus, converter.entities, converter.nominal_v) == ("main", (), None)


def test_a_described_bus_reaches_the_gpus_behind_its_converters() -> None:
    shown = wiring_map(wired_topology(topology(*EVERY_EDGE), DESCRIBED, MEASURED))
    main, side = shown.buses
    assert (main.nominal_v, main.redundancy, len(main.gpus)) == (12.0, "N+1", 3)
    assert main.branches[0].plugs_each == (MapPlugs(label="12VHPWR", rating_a=50.0),)
    assert main.branches[1].fans
    assert (side.branches[0].board, side.gpus) == ("riser", (GPUS[2].id,))
    assert shown.feeds == (MapFeed(name="A", nominal_v=230.0, breaker_a=16.0, curve="C"),)
    assert "bus of GPU 3: taken to hang on every supply that feeds a GPU" in shown.unknown


def test_where_no_supply_is_measured_the_gpus_hang_on_none_that_is_known() -> None:
    shown = wiring_map(wired_topology(Topology(entities=(NODE, *GPUS)), None, set()))
    assert shown.unknown == (
        "supply of GPUs 0-3: none is measured or described",
        "feeds, breakers, plugs and redundancy",
    )


@pytest.mark.parametrize(("named", "missing"), [(("0", "7"), ("GPU 7",)), (("gpu9",), ("GPU 9",)), (("1",), ())])
def test_a_branch_names_the_gpus_that_were_not_found(named: tuple[str, ...], missing: tuple[str, ...]) -> None:
    described = replace(DESCRIBED, buses=(replace(MAIN, branches=(Branch(gpus=named),)), SIDE))
    shown = wiring_map(wired_topology(topology(), described, MEASURED))
    assert shown.buses[0].branches[0].missing == missing
