import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.loading import names_in
from simulator.files.node import NODES, NodeFile, load_node
from simulator.plant.steady import bus_figures, shortfall, steady_loads, supply_figures

NODE = load_node("v100x4")


def with_joints(joint_mohm: float) -> NodeFile:
    units = tuple(unit.model_copy(update={"joint_mohm": joint_mohm}) for unit in NODE.supply.units)
    return NODE.model_copy(update={"supply": NODE.supply.model_copy(update={"units": units})})


def test_two_equal_branches_make_a_source_of_half_their_resistance_behind_the_bus() -> None:
    figures = supply_figures(NODE)
    assert figures.open_circuit_v == pytest.approx(12.30)
    assert figures.source_mohm == pytest.approx(4.4 / 2 + 0.3)
    assert figures.most_w == pytest.approx(12.30**2 / (4 * 0.0025))


@pytest.mark.parametrize(
    ("name", "lowest_v", "highest_v"),
    [("v100x4-banana", 11.0, 11.3), ("v100x4-double-ring", 12.03, 12.09), ("v100x4-xt60", 11.6, 11.85)],
)
def test_the_states_of_the_field_report_stand_where_it_states(name: str, lowest_v: float, highest_v: float) -> None:
    _, sustained, peak = steady_loads(load_node(name))
    assert lowest_v <= peak.voltage_v <= sustained.voltage_v <= highest_v


@pytest.mark.parametrize("name", names_in(NODES))
def test_what_the_branches_carry_is_what_the_node_takes(name: str) -> None:
    node = load_node(name)
    wiring = node.wiring
    for load in steady_loads(node):
        of_buses_w = [
            bus_v * sum(load.branch_a[unit] for unit in wiring.supplies_of(bus)) for bus, bus_v in enumerate(load.bus_v)
        ]
        assert sum(of_buses_w) == pytest.approx(load.node_w, rel=1e-6)
        assert not load.collapses


def test_each_bus_is_a_source_of_its_own_and_the_lowest_one_stands_for_the_node() -> None:
    node = load_node("v100x4-lone-gpu")
    assert [round(bus.source_mohm, 3) for bus in bus_figures(node)] == [2.5, 4.7]
    assert [bus.bus for bus in bus_figures(node)] == ["bus0", "bus1"]
    assert supply_figures(node).bus == "bus0"
    for load in steady_loads(node):
        assert load.voltage_v == min(load.bus_v)


@settings(max_examples=50)
@given(joint_mohm=st.floats(0.5, 20.0), more_mohm=st.floats(0.1, 10.0))
def test_more_resistance_never_returns_more_voltage(joint_mohm: float, more_mohm: float) -> None:
    better, worse = steady_loads(with_joints(joint_mohm)), steady_loads(with_joints(joint_mohm + more_mohm))
    assert all(one.voltage_v > other.voltage_v for one, other in zip(better, worse, strict=True))


def test_a_rail_that_cannot_carry_the_load_collapses() -> None:
    assert steady_loads(with_joints(200.0))[-1].collapses


def fed_by(*, units: int = 2, **changes: float) -> NodeFile:
    """Return the node with other supplies."""
    unit = NODE.supply.units[0].model_copy(update=changes)
    named = tuple(unit.model_copy(update={"name": f"psu{index}"}) for index in range(units))
    return NODE.model_copy(update={"supply": NODE.supply.model_copy(update={"units": named})})


@pytest.mark.parametrize("name", names_in(NODES))
def test_every_node_that_comes_with_railwatch_carries_its_own_load(name: str) -> None:
    assert shortfall(load_node(name)) is None


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (fed_by(open_circuit_v=5.0, joint_mohm=50.0), "its load at rest: the rail collapses under"),
        (fed_by(open_circuit_v=11.0), "its load at rest: the rail stands at 10.88 V and GPUs fall off their bus"),
        (fed_by(rated_w=100.0), "its load at rest: a supply is loaded to "),
        (fed_by(units=1), "all GPUs at their power limit: a supply is loaded to "),
        (fed_by(joint_mohm=18.0), "all GPUs at their power limit: the rail stands at "),
    ],
)
def test_what_a_node_cannot_carry_is_reported_with_the_reason(node: NodeFile, expected: str) -> None:
    reported = shortfall(node)
    assert reported is not None
    assert reported.startswith(f"cannot carry {expected}")


def test_a_node_at_rest_is_not_judged_by_its_full_load() -> None:
    assert shortfall(fed_by(units=1), at_rest=True) is None
