"""Caps where a node has two buses: a sag of one slows down the GPUs that it feeds and no other."""

from dataclasses import replace
from functools import partial

import pytest

from physics.feeding import feeding_of
from physics.wiring import Branch, Bus, Origin, WiredSupply, Wiring
from rules.caps.targets import targets_of
from rules.engine.engine import Engine
from rules.policy.model import Target
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology
from telemetry.frames import TableSpec
from telemetry.records import Verdict
from telemetry.topology import topology_of
from tests.rules.scenes import ENFORCED, GPUS, HALF, SAG, incident, node, policy, seconds

_WIRING = Wiring(
    origin=Origin.CONFIGURED,
    supplies=tuple(WiredSupply(name=f"psu{n}", sensors=(f"psu{n}",), nominal_v=12.0) for n in range(3)),
    buses=(
        Bus(name="a", nominal_v=12.0, supplies=("psu0", "psu1"), branches=(Branch(gpus=("0", "1", "2")),)),
        Bus(name="b", nominal_v=12.0, supplies=("psu2",), branches=(Branch(gpus=("gpu3",)),)),
    ),
)


@pytest.fixture
def topology() -> Topology:
    rails = {"psu0": 12.0, "psu1": 12.0, "psu2": 12.0, "v5": 5.0}
    supplies = tuple(
        Entity(kind=EntityKind.SUPPLY, key=name, name=name, tags=((NOMINAL_TAG, f"{nominal_v:g}"),))
        for name, nominal_v in rails.items()
    )
    gpus = tuple(
        Entity(kind=EntityKind.GPU, key=gpu.removeprefix("gpu:"), name=f"gpu{n}") for n, gpu in enumerate(GPUS)
    )
    specs = [
        TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=supplies, signals=("voltage_v",)),
        TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=gpus, signals=("power_w",)),
    ]
    return topology_of(Entity(kind=EntityKind.NODE, key="box", name="box"), specs, partial(feeding_of, _WIRING))


@pytest.mark.parametrize(
    ("sagging", "capped"),
    [
        (("supply:psu0",), (0, 1, 2)),
        (("supply:psu1",), (0, 1, 2)),
        (("supply:psu2",), (3,)),
        (("supply:psu0", "supply:psu2"), (0, 1, 2, 3)),
        (("supply:v5",), ()),
    ],
)
def test_a_cap_for_a_supply_is_for_the_gpus_that_its_bus_feeds(
    sagging: tuple[str, ...], capped: tuple[int, ...], topology: Topology
) -> None:
    about = incident(entities=sagging)
    assert targets_of(Target.ALL_GPUS_OF_SUPPLY, about, node(), topology) == tuple(GPUS[gpu] for gpu in capped)


def test_a_sag_of_a_bus_whose_gpus_are_all_lost_caps_none_of_another_bus(topology: Topology) -> None:
    left = replace(node(), gpus=tuple(gpu for gpu in node().gpus if gpu.entity_id != GPUS[3]))
    about = incident(entities=("supply:psu2",))
    assert targets_of(Target.ALL_GPUS_OF_SUPPLY, about, left, topology) == ()


@pytest.mark.parametrize(("sagging", "capped"), [("supply:psu1", (0, 1, 2)), ("supply:psu2", (3,))])
def test_the_engine_orders_a_cap_for_the_gpus_of_the_sagging_bus_alone(
    sagging: str, capped: tuple[int, ...], topology: Topology
) -> None:
    engine = Engine([policy(HALF)], limits=ENFORCED, topology=topology)
    found = incident(entities=(sagging,), numbers=SAG)
    (decision,) = engine.step((found,), node(), seconds(1.0))
    assert decision.verdict is Verdict.EXECUTE
    assert decision.targets == tuple(GPUS[gpu] for gpu in capped)


def test_a_rail_that_feeds_no_gpu_caps_none(topology: Topology) -> None:
    engine = Engine([policy(HALF)], limits=ENFORCED, topology=topology)
    found = incident(entities=("supply:v5",), numbers=SAG)
    (decision,) = engine.step((found,), node(), seconds(1.0))
    assert decision.verdict is Verdict.REFUSE
    assert not set(GPUS) & set(decision.targets)
