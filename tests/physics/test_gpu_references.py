"""Tests of the look-up of GPUs: it finds what going through all of them finds."""

from hypothesis import given
from hypothesis import strategies as st

from physics.gpu_references import GpuReferences
from physics.wiring import Branch, Bus, Origin, WiredSupply, Wiring
from telemetry.entities import Entity, EntityKind

_NUMBERS = st.integers(min_value=0, max_value=12)
_ADDRESSES = _NUMBERS.map(lambda n: f"0000:{n:02x}:00.0")
_REFERENCES = st.one_of(
    _NUMBERS.map(str),
    _NUMBERS.map(lambda n: f"0{n}"),
    _NUMBERS.map(lambda n: f"GPU{n}"),
    _NUMBERS.map(lambda n: f"gpu-{n:08X}"),
    _ADDRESSES,
    _ADDRESSES.map(lambda address: f"0000{address}".upper()),
    _ADDRESSES.map(lambda address: address.removeprefix("0000:")),
    st.just("-"),
    st.just(""),
)


@st.composite
def gpus(draw: st.DrawFn) -> tuple[Entity, ...]:
    found = []
    for n in draw(st.lists(_NUMBERS, unique=True)):
        tags = draw(st.sampled_from([(), (("pci", f"00000000:{n:02X}:00.0"),), (("pci", f"0000:{n:02x}:00.0"),)]))
        found.append(
            Entity(kind=EntityKind.GPU, key=f"GPU-{n:08x}", name=draw(st.sampled_from([f"gpu{n}", ""])), tags=tags)
        )
    return tuple(found)


_BRANCHES = st.lists(
    st.builds(lambda named: Branch(gpus=named), st.none() | st.lists(_REFERENCES, max_size=4).map(tuple)), max_size=3
)


@given(gpus(), _BRANCHES)
def test_the_gpus_of_a_bus_are_those_that_one_of_its_branches_feeds(
    every: tuple[Entity, ...], own: list[Branch]
) -> None:
    bus = Bus(name="bus", nominal_v=54.0, supplies=(), branches=tuple(own))
    found = GpuReferences.of(every).fed_by(bus)
    assert found == tuple(gpu for gpu in every if any(branch.feeds(gpu) for branch in own))


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_SUPPLIES = st.lists(
    st.builds(
        lambda name, sensors, feed, shelf, source: WiredSupply(
            name=name, sensors=tuple(sensors), feed=feed, shelf=shelf, from_bus=source
        ),
        _NAMES,
        st.lists(_NAMES, max_size=2),
        _NAMES,
        _NAMES,
        _NAMES,
    ),
    max_size=6,
)


@given(_SUPPLIES, st.lists(_NAMES, max_size=4), _NAMES, _NAMES)
def test_supplies_are_looked_up_in_the_order_in_which_they_are_described(
    supplies: list[WiredSupply], on_bus: list[str], key: str, name: str
) -> None:
    bus = Bus(name=key, nominal_v=None, supplies=tuple(on_bus))
    wiring = Wiring(origin=Origin.CONFIGURED, supplies=tuple(supplies), buses=(bus,))
    assert wiring.on_bus(bus) == tuple(one for one in supplies if one.name in on_bus)
    assert wiring.on_feed(key) == tuple(one for one in supplies if one.feed == key)
    assert wiring.in_shelf(key) == tuple(one for one in supplies if one.shelf == key)
    assert wiring.converters(bus) == tuple(one for one in supplies if one.from_bus == key)
    measured = Entity(kind=EntityKind.SUPPLY, key=key, name=name)
    assert wiring.supply_of(measured) == next((one for one in supplies if {key, name} & {*one.sensors}), None)
