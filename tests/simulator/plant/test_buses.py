"""Buses share nothing: each is solved by itself, and what happens on one is not seen on another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import UNDISTURBED, Change, ScenarioFile
from simulator.files.wiring import wiring_of
from simulator.files.workload import load_workload
from simulator.plant.buses import Buses, bus_loads_w
from simulator.plant.events import PlantEventKind
from simulator.plant.plant import Plant
from simulator.plant.supply import SupplyRail, supply_model

TWO = load_node("v100x4-two-bus")
HOST_APART = load_node("a100x16")
BURN = load_workload("burn")


def changed(**to: float) -> ScenarioFile:
    """Return a scenario in which quantities, with two underscores for the dot, change after a second."""
    changes = tuple(
        Change.model_validate({"at": "1s", "what": what.replace("__", "."), "to": value}) for what, value in to.items()
    )
    return UNDISTURBED.model_copy(update={"changes": changes})


def plant_of(node: NodeFile, scenario: ScenarioFile = UNDISTURBED) -> Plant:
    return Plant(node, scenario, 1, workload=BURN)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=16), st.floats(0.0, 3000.0))
def test_every_watt_is_on_one_bus(gpus: list[int], other_w: float) -> None:
    buses = [f"bus{bus}" for bus in range(3)]
    wiring = wiring_of(supplies=buses, gpus=[buses[bus] for bus in gpus], rest="bus1")
    gpu_w = 100.0 + np.arange(2.0 * len(gpus)).reshape(2, -1)
    load_w = bus_loads_w(wiring, gpu_w, other_w)
    np.testing.assert_allclose(load_w.sum(axis=1), gpu_w.sum(axis=1) + other_w)
    for bus in range(3):
        alone = gpu_w[:, [own == bus for own in gpus]].sum(axis=1) + (other_w if bus == 1 else 0.0)
        np.testing.assert_allclose(load_w[:, bus], alone)


@settings(max_examples=30)
@given(
    st.lists(st.floats(50.0, 1200.0), min_size=2, max_size=2), st.lists(st.floats(3.0, 30.0), min_size=4, max_size=4)
)
def test_a_bus_is_what_its_rail_would_be_alone(load_w: list[float], branch_mohm: list[float]) -> None:
    branch_ohm = np.array(branch_mohm) / 1000.0
    open_v, on = np.full(4, 12.3), np.ones(4, dtype=np.bool_)
    block = Buses(TWO, 10).advance(np.tile(load_w, (10, 1)), open_circuit_v=open_v, branch_ohm=branch_ohm, on=on)
    for bus, units in enumerate(([0, 1], [2, 3])):
        alone = SupplyRail(supply_model(TWO), 2, 10).advance(
            np.full(10, load_w[bus]), open_circuit_v=open_v[units], branch_ohm=branch_ohm[units], on=on[units]
        )
        np.testing.assert_array_equal(block.bus_v[:, bus], alone.voltage_v)
        np.testing.assert_array_equal(block.current_a[:, units], alone.current_a)


def test_power_is_conserved_on_each_bus() -> None:
    plant = plant_of(TWO)
    stretch = plant.advance(2000)
    given_w = stretch.bus_v[-1] * stretch.current_a[-1].reshape(2, 2).sum(axis=1)
    taken_w = stretch.power_w[-1].reshape(2, 2).sum(axis=1)
    rest_w = TWO.other_power_w + plant.state.fan_power_w
    np.testing.assert_allclose(given_w - taken_w, [rest_w, 0.0], atol=1e-3)


def test_a_worn_joint_lowers_its_own_bus_alone() -> None:
    worn, good = plant_of(TWO, changed(psu2__joint_mohm=12.0, psu3__joint_mohm=12.0)), plant_of(TWO)
    worn_v, good_v = worn.advance(3000).bus_v[-100:], good.advance(3000).bus_v[-100:]
    np.testing.assert_array_equal(worn_v[:, 0], good_v[:, 0])
    assert (good_v[:, 1] - worn_v[:, 1]).min() > 0.1


def test_a_dark_bus_takes_its_gpus_and_no_other() -> None:
    plant = plant_of(TWO, changed(psu2__in_service=0.0, psu3__in_service=0.0))
    stretch = plant.advance(3000)
    events = plant.take_events()
    assert plant.state.powered
    assert plant.state.gpus.present.tolist() == [True, True, False, False]
    assert {event.gpu for event in events if event.kind is PlantEventKind.GPU_LOST} == {2, 3}
    assert stretch.bus_v[-1, 1] == 0.0
    assert stretch.power_w[-1, 2:].tolist() == [0.0, 0.0]
    assert plant.state.supplies.output_v[2:].tolist() == [0.0, 0.0]
    assert plant.state.rail_v == 0.0
    assert PlantEventKind.RAIL_COLLAPSE not in {event.kind for event in events}


def test_a_node_whose_own_bus_is_dark_is_off_and_starts_cold_with_the_gpus_that_have_power() -> None:
    off = (("psu4.in_service", 0.0, "1s"), ("psu5.in_service", 0.0, "1s"), ("psu2.in_service", 0.0, "1500ms"))
    back = (("psu3.in_service", 0.0, "1500ms"), ("psu4.in_service", 1.0, "2s"), ("psu5.in_service", 1.0, "2s"))
    changes = tuple(Change.model_validate({"at": at, "what": what, "to": to}) for what, to, at in (*off, *back))
    plant = plant_of(HOST_APART, UNDISTURBED.model_copy(update={"changes": changes}))
    plant.advance(1200)
    assert not plant.state.powered
    assert not plant.advance(10).bus_v.any()
    plant.advance(2000)
    assert plant.state.powered
    assert plant.state.gpus.present.tolist() == [True] * 8 + [False] * 8


def test_one_bus_may_collapse_alone() -> None:
    plant = plant_of(TWO, changed(psu2__joint_mohm=400.0, psu3__joint_mohm=400.0))
    plant.advance(2000)
    assert plant.state.gpus.present.tolist() == [True, True, False, False]
    assert PlantEventKind.RAIL_COLLAPSE in {event.kind for event in plant.take_events()}
    assert plant.state.collapsed_ms > 0


@pytest.mark.parametrize("name", ["v100x4-two-bus", "v100x4-lone-gpu", "h100x8-two-bus", "a100x16"])
def test_cutting_time_into_pieces_changes_nothing(name: str) -> None:
    node = load_node(name)
    whole, parts = plant_of(node), plant_of(node)
    pieces = [parts.advance(n_ms).bus_v for n_ms in (10, 130, 60)]
    np.testing.assert_array_equal(whole.advance(200).bus_v, np.concatenate(pieces))
