"""Chains of converters: from a description, from nominal voltages, and the worst stage of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.converter_chain import MeasuredStage, Stage, StageKind, chain_verdict, converter_chains, worst_stage
from physics.feeding import feeding_of
from physics.rail_classes import RailClass, rail_class_of
from physics.wiring import Branch, Bus, Origin, WiredSupply, Wiring
from telemetry.entities import (
    BOARD_PLACE,
    BUS_TAG,
    INPUT_NOMINAL_TAG,
    NOMINAL_TAG,
    PLACE_TAG,
    SOURCE_TAG,
    Entity,
    EntityKind,
)


def entity(name: str, nominal_v: float | None, *more: tuple[str, str]) -> Entity:
    tags = () if nominal_v is None else ((NOMINAL_TAG, f"{nominal_v:g}"),)
    return Entity(kind=EntityKind.SUPPLY, key=name, name=name, tags=(*tags, *more))


BOARD = ((SOURCE_TAG, "bmc"), (PLACE_TAG, BOARD_PLACE))
PSUS = (entity("psu0", 54.0), entity("psu1", 54.0))
P54V, P12V = entity("bmc-p54v", 54.0, *BOARD), entity("bmc-p12v", 12.0, *BOARD)
OUTPUT = entity("bmc-psu0", 54.0, (SOURCE_TAG, "bmc"))
GPUS = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(4))


def chains(*supplies: Entity, wiring: Wiring | None = None) -> list[list[tuple[str, tuple[str, ...]]]]:
    edges = feeding_of(wiring, supplies, GPUS).edges
    found = converter_chains(supplies, edges)
    return [[(stage.name, tuple(one.key for one in stage.entities)) for stage in chain] for chain in found]


def test_a_board_with_one_main_bus_makes_its_12_v_from_it() -> None:
    assert chains(*PSUS, P54V, P12V, OUTPUT) == [
        [
            ("54 V bus", ("psu0", "psu1")),
            ("54 V at the board", ("bmc-p54v",)),
            ("12 V intermediate bus", ("bmc-p12v",)),
        ]
    ]


def test_the_controllers_readings_of_the_outputs_are_the_bus_where_nothing_else_measures_it() -> None:
    assert chains(OUTPUT, P12V) == [[("54 V bus", ("bmc-psu0",)), ("12 V intermediate bus", ("bmc-p12v",))]]


def test_a_converter_that_measures_an_input_of_the_main_bus_is_its_12_v() -> None:
    converter = entity("bmr492", 12.0, (INPUT_NOMINAL_TAG, "54"))
    assert chains(*PSUS, converter, P12V, entity("psu2", 12.0)) == [
        [("54 V bus", ("psu0", "psu1")), ("12 V intermediate bus", ("bmr492",))]
    ]
    assert chains(*PSUS, entity("bmr492", 12.0, (INPUT_NOMINAL_TAG, "48"))) != [], "54 V under load"
    assert chains(*PSUS, entity("vr", 5.0, (INPUT_NOMINAL_TAG, "12"))) == []


@pytest.mark.parametrize(
    "supplies",
    [
        (entity("psu0", 12.0), P12V),  # no main bus
        (*PSUS, entity("psu2", 12.0)),  # a supply of its own
        (*PSUS, entity("psu2", 48.0), P12V),  # of two main buses it may be either
        PSUS,
        (P12V,),
    ],
)
def test_no_chain_is_assumed_where_the_12_v_may_come_from_elsewhere(supplies: tuple[Entity, ...]) -> None:
    assert chains(*supplies) == []


def described(*, from_bus: str = "main") -> Wiring:
    return Wiring(
        origin=Origin.CONFIGURED,
        supplies=(
            WiredSupply(name="psu0", sensors=("psu0",), nominal_v=54.0),
            WiredSupply(name="psu1", sensors=("psu1",), nominal_v=54.0),
            WiredSupply(name="ibc0", sensors=("in12",), nominal_v=12.0, from_bus=from_bus),
            WiredSupply(name="vr5", sensors=("in5",), nominal_v=5.0, from_bus="twelve"),
        ),
        buses=(
            Bus(name="main", nominal_v=54.0, supplies=("psu0",), branches=(Branch(gpus=("0", "1")),)),
            Bus(name="other", nominal_v=54.0, supplies=("psu1",), branches=(Branch(gpus=("2", "3")),)),
            Bus(name="twelve", nominal_v=12.0, supplies=("ibc0",), branches=(Branch(board="board"),)),
            Bus(name="five", nominal_v=5.0, supplies=("vr5",), branches=(Branch(board="board"),)),
        ),
    )


@pytest.mark.parametrize(("from_bus", "psu"), [("main", "psu0"), ("other", "psu1")])
def test_a_described_converter_hangs_on_the_bus_that_it_draws_from(from_bus: str, psu: str) -> None:
    supplies = (*PSUS, entity("in12", 12.0), entity("in5", 5.0))
    assert chains(*supplies, wiring=described(from_bus=from_bus)) == [
        [("54 V bus", (psu,)), ("12 V intermediate bus", ("in12",)), ("5 V intermediate bus", ("in5",))]
    ]


def test_each_of_two_buses_has_the_rail_of_the_board_that_is_known_to_show_it() -> None:
    rails = [entity(f"bmc-p54v-{name}", 54.0, *BOARD, *on) for name, on in (("b", ((BUS_TAG, "other"),)), ("x", ()))]
    edges = [(supply.id, gpu.id) for supply, own in zip(PSUS, (GPUS[:2], GPUS[2:]), strict=True) for gpu in own]
    supplies = [entity(psu.name, 54.0, (BUS_TAG, bus)) for psu, bus in zip(PSUS, ("main", "other"), strict=True)]
    found = converter_chains((*supplies, *rails), edges)
    assert [[one.key for stage in chain for one in stage.entities] for chain in found] == [["psu1", "bmc-p54v-b"]]


def test_nodes_of_a_fleet_have_chains_of_their_own() -> None:
    supplies = [entity(f"{node}.{name}", 54.0) for node in "ab" for name in ("psu0", "psu1")]
    rails = [entity(f"{node}.p12v", 12.0, *BOARD) for node in "ab"]
    edges = [(f"node:{one.key[0]}", one.id) for one in (*supplies, *rails)]
    found = converter_chains((*supplies, *rails), edges)
    assert [[one.key for stage in chain for one in stage.entities] for chain in found] == [
        ["a.psu0", "a.psu1", "a.p12v"],
        ["b.psu0", "b.psu1", "b.p12v"],
    ]


def rail(nominal_v: float) -> RailClass:
    found = rail_class_of(nominal_v)
    assert found is not None
    return found


def measured(*volts: float | None) -> tuple[MeasuredStage, ...]:
    kinds = (StageKind.SUPPLIES, StageKind.BOARD, StageKind.CONVERTER)
    rails = (rail(54.0), rail(54.0), rail(12.0))
    return tuple(
        MeasuredStage(stage=Stage(kind=kind, rail=of, entities=()), lowest_v=lowest_v)
        for kind, of, lowest_v in zip(kinds, rails, volts, strict=True)
    )


@pytest.mark.parametrize(
    ("volts", "verdict"),
    [
        (
            (53.9, 53.6, 11.2),
            "54 V at the board within limits; 12 V intermediate bus lowest 11.20 V, 93.3%: converter or its load",
        ),
        (
            (53.9, None, 11.2),
            "54 V bus within limits; 12 V intermediate bus lowest 11.20 V, 93.3%: converter or its load",
        ),
        (
            (53.9, 50.6, 11.2),
            "54 V bus within limits; 54 V at the board lowest 50.60 V, 93.7%: joints between supplies and board",
        ),
        ((50.5, 50.1, 11.1), "54 V bus lowest 50.50 V, 93.5%: supplies or their load"),
        ((53.9, 53.6, 11.7), "worst stage: 12 V intermediate bus lowest 11.70 V, 97.5%, 50% of its margin left"),
        ((53.9, None, None), ""),
        ((None, None, 11.2), ""),
    ],
)
def test_the_verdict_names_the_first_stage_that_is_low(volts: tuple[float | None, ...], verdict: str) -> None:
    assert chain_verdict(measured(*volts)) == verdict


VOLTS = st.floats(0.9, 1.05)


@given(st.tuples(VOLTS, VOLTS, VOLTS))
def test_no_stage_before_the_worst_one_is_below_its_limit(ratios: tuple[float, float, float]) -> None:
    stages = measured(ratios[0] * 54.0, ratios[1] * 54.0, ratios[2] * 12.0)
    worst = worst_stage(stages)
    assert worst is not None
    place = stages.index(worst)
    assert all(one.margin is not None and one.margin >= 0.0 for one in stages[:place])
    if worst.margin is not None and worst.margin >= 0.0:
        assert worst.margin == min(one.margin for one in stages if one.margin is not None)


@given(VOLTS)
def test_a_margin_is_a_share_of_the_tolerance_alike_at_any_voltage(ratio: float) -> None:
    stages = [Stage(kind=StageKind.CONVERTER, rail=rail(nominal_v), entities=()) for nominal_v in (12.0, 54.0)]
    margins = [one.margin(ratio * one.rail.nominal_v) for one in stages]
    assert margins[0] == pytest.approx(margins[1])
    assert stages[0].margin(12.0) == pytest.approx(1.0)
    assert stages[0].margin(11.4) == pytest.approx(0.0, abs=1e-9)
