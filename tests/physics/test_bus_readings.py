"""Which of several main buses a rail of the board shows: described, named alike, or not known."""

from dataclasses import replace

import pytest

from physics.bus_readings import bus_shown
from physics.feeding import bus_names, described_supplies, feeding_of, with_described_tags
from physics.wiring import Branch, Bus, Origin, WiredSupply, Wiring
from telemetry.entities import BOARD_PLACE, BUS_TAG, NOMINAL_TAG, PLACE_TAG, SOURCE_TAG, Entity, EntityKind

GPUS = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(4))


def rail(name: str, nominal_v: str = "54") -> Entity:
    tags = ((SOURCE_TAG, "bmc"), (NOMINAL_TAG, nominal_v), (PLACE_TAG, BOARD_PLACE))
    return Entity(kind=EntityKind.SUPPLY, key=f"bmc-{name.lower().replace('_', '-')}", name=f"{name} (bmc)", tags=tags)


def supply(name: str, nominal_v: str = "54") -> Entity:
    return Entity(kind=EntityKind.SUPPLY, key=name, name=name, tags=((NOMINAL_TAG, nominal_v),))


def wiring(*names: str, sensors: tuple[tuple[str, ...], ...] = ((), ())) -> Wiring:
    supplies = tuple(WiredSupply(name=f"psu{n}", sensors=(f"psu{n}",), nominal_v=54.0) for n in range(len(names)))
    buses = tuple(
        Bus(
            name=name,
            nominal_v=54.0,
            supplies=(f"psu{n}",),
            branches=(Branch(gpus=(f"gpu{2 * n}", f"gpu{2 * n + 1}")),),
            sensors=sensors[n],
        )
        for n, name in enumerate(names)
    )
    return Wiring(origin=Origin.CONFIGURED, supplies=supplies, buses=buses)


def shown(name: str, wired: Wiring) -> str | None:
    bus = bus_shown(rail(name), wired)
    return None if bus is None else bus.name


@pytest.mark.parametrize("sensor", ["P54V_B", "P54V_B (bmc)", "bmc-p54v-b"])
def test_a_described_rail_shows_its_bus_by_any_of_its_names(sensor: str) -> None:
    assert shown("P54V_B", wiring("upper", "lower", sensors=((sensor,), ()))) == "upper"


@pytest.mark.parametrize("sensor", ["P12V", "P12V (bmc)", "bmc-p12v"])
def test_a_described_converter_is_known_by_any_name_of_its_rail_also_under_its_described_name(sensor: str) -> None:
    converter = WiredSupply(name="aux", sensors=(sensor,), nominal_v=12.0, from_bus="main")
    one = wiring("main")
    one = replace(
        one,
        supplies=(*one.supplies, converter),
        buses=(*one.buses, Bus(name="board", nominal_v=12.0, supplies=("aux",))),
    )
    supplies = described_supplies((supply("psu0"), rail("P12V", "12")), one)
    assert supplies[1].name == "aux"
    assert ("supply:psu0", "supply:bmc-p12v") in feeding_of(one, supplies, GPUS).edges
    outputs = [replace(one, tags=((SOURCE_TAG, "bmc"),)) for one in (rail("psu0"), rail("aux"))]
    assert not [one for one in outputs if wiring("main").supply_of(one)], "a controller counts its supplies by itself"


@pytest.mark.parametrize(
    ("name", "buses", "expected"),
    [
        ("P54V_A", ("A", "B"), "A"),
        ("P54V_B", ("bus-a", "bus-b"), "bus-b"),
        ("54V_GPU_LEFT", ("gpu left", "gpu right"), "gpu left"),
        ("P54V_BUSB", ("a", "b"), "b"),
        ("P54V_C", ("A", "B"), None),
        ("P54V", ("A", "B"), None),
        ("P54V_A_IN", ("A", "B"), None),
        # Names of `wiring learn`: their numbers are those of no board.
        ("P54V_0", ("bus0", "bus1"), None),
        ("P54V_BUS1", ("bus0", "bus1"), None),
        ("P54V_A", ("bus0", "bus1"), None),
    ],
)
def test_without_a_description_only_a_name_that_fits_one_bus_alone_counts(
    name: str, buses: tuple[str, ...], expected: str | None
) -> None:
    assert shown(name, wiring(*buses)) == expected


def test_a_name_is_no_evidence_for_a_bus_that_is_described_with_another_rail() -> None:
    assert shown("P54V_A", wiring("A", "B", sensors=(("P54V_X",), ()))) is None


def test_a_rail_of_another_voltage_or_of_a_node_with_one_bus_shows_none() -> None:
    assert bus_shown(rail("P12V_A", "12"), wiring("A", "B")) is None
    assert shown("P54V_A", wiring("A")) is None
    assert bus_shown(supply("P54V_A"), wiring("A", "B")) is None
    assert shown("P54V_A", replace(wiring("A", "B"), origin=Origin.INFERRED)) is None


def test_supplies_and_rails_of_several_buses_are_tagged_with_their_bus() -> None:
    wired = wiring("A", "B")
    found = [with_described_tags(one, wired).tag(BUS_TAG) for one in (supply("psu1"), rail("P54V_A"), rail("P54V_X"))]
    assert found == ["B", "A", None]
    assert with_described_tags(supply("psu0"), wiring("A")).tag(BUS_TAG) is None


def test_a_rail_feeds_the_gpus_of_its_bus_and_one_of_an_unknown_bus_every_gpu() -> None:
    rails = (rail("P54V_B"), rail("P54V_X"))
    edges = feeding_of(wiring("A", "B"), (supply("psu0"), supply("psu1"), *rails), GPUS).edges
    fed = {one.id: [gpu for above, gpu in edges if above == one.id] for one in rails}
    assert fed == {rails[0].id: [GPUS[2].id, GPUS[3].id], rails[1].id: [gpu.id for gpu in GPUS]}


def test_buses_are_named_as_their_supplies_are_tagged_and_numbered_where_that_is_not_unique() -> None:
    wired = wiring("A", "B")
    tagged = [[with_described_tags(one, wired)] for one in (supply("psu0"), supply("psu1"), rail("P54V_B"))]
    assert bus_names([*tagged, [supply("psu2")]]) == ("A", "B", "B (bmc)", "bus0")
    assert bus_names([tagged[0], tagged[0], [supply("psu2")]]) == ("bus0", "bus1", "bus2")
