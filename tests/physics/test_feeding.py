"""Tests of what feeds what: inferred from nominal voltages, and from a configured wiring."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.connectivity.buses import bus_groups
from physics.feeding import feeding_of, inferred_wiring, with_described_tags
from physics.wiring import Branch, Bus, Origin, Shelf, WiredSupply, Wiring
from telemetry.entities import (
    NOMINAL_SOURCE_TAG,
    NOMINAL_TAG,
    SOURCE_TAG,
    Entity,
    EntityKind,
    NominalSource,
    Topology,
)
from telemetry.frames import TableSpec
from telemetry.ratings import rated_power_w
from telemetry.topology import topology_of


def _supply(name: str, nominal_v: float | None = None) -> Entity:
    tags = () if nominal_v is None else ((NOMINAL_TAG, f"{nominal_v:g}"),)
    return Entity(kind=EntityKind.SUPPLY, key=name, name=name, tags=tags)


def _gpus(count: int) -> tuple[Entity, ...]:
    return tuple(
        Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}", tags=(("pci", f"0000:{n + 1:02x}:00.0"),))
        for n in range(count)
    )


def _topology(wiring: Wiring | None, supplies: tuple[Entity, ...], gpus: tuple[Entity, ...]) -> Topology:
    node = Entity(kind=EntityKind.NODE, key="n", name="n")
    specs = [
        TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=supplies, signals=("voltage_v",)),
        TableSpec(name="gpu", kind=EntityKind.GPU, entities=gpus, signals=("power_w",)),
    ]
    return topology_of(node, specs, partial(feeding_of, wiring))


def _fed(topology: Topology, supply: str) -> list[str]:
    return [one.name for one in topology.children(f"supply:{supply}") if one.kind is EntityKind.GPU]


def _wired(*names: str, shelf: str = "") -> tuple[WiredSupply, ...]:
    return tuple(WiredSupply(name=name, sensors=(name,), nominal_v=12.0, shelf=shelf) for name in names)


def _two_buses() -> Wiring:
    return Wiring(
        origin=Origin.CONFIGURED,
        supplies=_wired("psu0", "psu1"),
        buses=(
            Bus(name="a", nominal_v=12.0, supplies=("psu0",), branches=(Branch(gpus=("0", "1", "2")),)),
            Bus(name="b", nominal_v=12.0, supplies=("psu1",), branches=(Branch(gpus=("3",)),)),
        ),
    )


@pytest.mark.parametrize(
    ("rails", "feeding"),
    [
        ({"psu0": 12.0, "psu1": 12.0}, ["psu0", "psu1"]),
        ({"psu0": 12.0, "v5": 5.0, "v33": 3.3}, ["psu0"]),
        ({"hsc": 54.0, "ibc": 12.0, "v33": 3.3}, ["hsc"]),
        ({"bus48": 48.0, "hsc": 54.0, "ibc": 12.0}, ["bus48", "hsc"]),
        ({"psu0": 54.0, "meter": None, "v5": 5.0}, ["psu0", "meter"]),
        ({"v5": 5.0, "v33": 3.3}, []),
        ({"outlet": 230.0, "psu0": 12.0}, ["psu0"]),
    ],
)
def test_without_a_wiring_gpus_hang_on_48_and_54_v_rails_else_on_12_v(
    rails: dict[str, float | None], feeding: list[str]
) -> None:
    supplies = tuple(_supply(name, nominal_v) for name, nominal_v in rails.items())
    topology = _topology(None, supplies, _gpus(4))
    assert [name for name in rails if _fed(topology, name)] == feeding
    assert all(len(_fed(topology, name)) == 4 for name in feeding)


def test_a_configured_bus_feeds_its_own_gpus_alone() -> None:
    topology = _topology(_two_buses(), (_supply("psu0", 12.0), _supply("psu1", 12.0)), _gpus(4))
    assert _fed(topology, "psu0") == ["gpu0", "gpu1", "gpu2"]
    assert _fed(topology, "psu1") == ["gpu3"]


def test_a_gpu_that_no_bus_names_is_taken_to_hang_on_every_supply_that_feeds_any() -> None:
    topology = _topology(_two_buses(), (_supply("psu0", 12.0), _supply("psu1", 12.0), _supply("v5", 5.0)), _gpus(5))
    assert "gpu4" in _fed(topology, "psu0")
    assert "gpu4" in _fed(topology, "psu1")
    assert _fed(topology, "v5") == []


def test_a_rail_that_the_wiring_does_not_name_feeds_what_buses_of_its_voltage_feed() -> None:
    supplies = (_supply("psu0", 12.0), _supply("psu1", 12.0), _supply("board", 12.0), _supply("v5", 5.0))
    topology = _topology(_two_buses(), supplies, _gpus(4))
    assert len(_fed(topology, "board")) == 4
    assert _fed(topology, "v5") == []


def test_a_supply_feeds_the_gpus_behind_the_converters_of_its_bus() -> None:
    wiring = Wiring(
        origin=Origin.CONFIGURED,
        supplies=(
            WiredSupply(name="psu0", sensors=("psu0",), nominal_v=54.0),
            WiredSupply(name="ibc", sensors=("p12v",), nominal_v=12.0, from_bus="main"),
        ),
        buses=(
            Bus(name="main", nominal_v=54.0, supplies=("psu0",), branches=(Branch(gpus=("0",)),)),
            Bus(name="aux", nominal_v=12.0, supplies=("ibc",), branches=(Branch(gpus=("1",)),)),
        ),
    )
    topology = _topology(wiring, (_supply("psu0", 54.0), _supply("p12v", 12.0)), _gpus(2))
    assert _fed(topology, "psu0") == ["gpu0", "gpu1"]
    assert _fed(topology, "p12v") == ["gpu1"]
    assert "supply:p12v" in [one.id for one in topology.children("supply:psu0")]


def test_a_shelf_is_one_entity_above_its_modules_and_what_they_feed() -> None:
    wiring = Wiring(
        origin=Origin.CONFIGURED,
        supplies=_wired("psu0", "psu1", shelf="shelf0"),
        buses=(Bus(name="main", nominal_v=12.0, supplies=("psu0", "psu1"), branches=(Branch(gpus=None),)),),
        shelves=(Shelf(name="shelf0"), Shelf(name="elsewhere")),
    )
    topology = _topology(wiring, (_supply("psu0"), _supply("psu1")), _gpus(2))
    below = [one.id for one in topology.children("supply:shelf0")]
    assert below == ["supply:psu0", "supply:psu1", "gpu:GPU-0", "gpu:GPU-1"]
    assert [one.id for one in topology.parents("supply:shelf0")] == ["node:n"]
    assert all(one.key != "elsewhere" for one in topology.entities)


def test_a_shelf_with_the_name_of_a_supply_is_no_entity_and_feeds_nothing_twice() -> None:
    wiring = Wiring(
        origin=Origin.CONFIGURED,
        supplies=_wired("psu0", "psu1", shelf="psu0"),
        buses=(Bus(name="main", nominal_v=12.0, supplies=("psu0", "psu1"), branches=(Branch(gpus=None),)),),
        shelves=(Shelf(name="psu0"),),
    )
    topology = _topology(wiring, (_supply("psu0"), _supply("psu1")), _gpus(1))
    assert [one.id for one in topology.children("supply:psu0")] == ["gpu:GPU-0"]


def test_a_described_supply_is_tagged_with_its_nominal_voltage_and_rating_and_who_named_them() -> None:
    wiring = Wiring(
        origin=Origin.CONFIGURED,
        supplies=(WiredSupply(name="psu0", sensors=("in3",), nominal_v=54.0, rated_w=3300.0),),
        buses=(Bus(name="main", nominal_v=54.0, supplies=("psu0",), branches=(Branch(gpus=None),)),),
    )
    found = with_described_tags(_supply("in3", 48.0), wiring)
    assert found.nominal_v == 54.0
    assert found.tag(NOMINAL_SOURCE_TAG) == NominalSource.CONFIGURATION
    assert found.measured_nominal_v == 48.0, "what its sensor names is kept"
    assert with_described_tags(found, wiring) == found, "as of a recording of a described node"
    assert rated_power_w([found]).tolist() == [3300.0]
    assert with_described_tags(_supply("in4", 48.0), wiring) == _supply("in4", 48.0)
    assert with_described_tags(_supply("in3", 48.0), None) == _supply("in3", 48.0)


def _controller(name: str, nominal_v: float | None = None) -> Entity:
    found = _supply(name, nominal_v)
    return replace(found, tags=(*found.tags, (SOURCE_TAG, "bmc")))


def test_a_controllers_reading_of_a_bus_is_a_bus_of_its_own_and_none_of_its_supplies() -> None:
    supplies = (_supply("psu0", 54.0), _supply("psu1", 54.0), _controller("bmc-p54v", 54.0))
    wiring = inferred_wiring(supplies, _gpus(2))
    assert [(bus.name, bus.supplies) for bus in wiring.buses] == [
        ("54 V", ("psu0", "psu1")),
        ("54 V (bmc)", ("bmc-p54v",)),
    ]
    groups = bus_groups(supplies, _topology(None, supplies, _gpus(2)))
    assert (groups[0], groups[0] == groups[2]) == (groups[1], False)


@given(st.sampled_from((3.3, 5.0, 12.0)), st.sampled_from((48.0, 54.0)))
def test_a_controllers_rail_below_the_main_bus_feeds_no_gpu(low_v: float, main_v: float) -> None:
    supplies = (_supply("psu0", main_v), _controller("bmc-rail", low_v))
    topology = _topology(None, supplies, _gpus(2))
    assert _fed(topology, "psu0") == ["gpu0", "gpu1"]
    assert _fed(topology, "bmc-rail") == []


@pytest.mark.parametrize("reference", ["1", "gpu1", "GPU-1", "0000:02:00.0", "00000000:02:00.0", "02:00.0"])
def test_a_gpu_is_named_by_index_name_uuid_or_pci_address(reference: str) -> None:
    branch = Branch(gpus=(reference,))
    assert [gpu.name for gpu in _gpus(12) if branch.feeds(gpu)] == ["gpu1"]


@given(st.lists(st.sampled_from((None, 3.3, 5.0, 12.0, 48.0, 54.0, 230.0)), max_size=8), st.integers(0, 16))
def test_an_inferred_wiring_has_each_supply_on_one_bus(nominals_v: list[float | None], n_gpus: int) -> None:
    supplies = [_supply(f"psu{n}", nominal_v) for n, nominal_v in enumerate(nominals_v)]
    wiring = inferred_wiring(supplies, _gpus(n_gpus))
    named = [name for bus in wiring.buses for name in bus.supplies]
    assert sorted(named) == sorted(one.key for one in supplies)
    assert wiring.origin is Origin.INFERRED
