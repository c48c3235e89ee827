"""The closed form on nodes with several buses: as the millisecond has it, bus by bus."""

import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import UNDISTURBED, Change, ScenarioFile
from simulator.files.workload import load_workload
from simulator.fleet.fleet import Fleet
from simulator.fleet.stretch import FleetStretch
from simulator.plant.plant import Plant

BURN, DDP = load_workload("burn"), load_workload("ddp")
SEVERAL = ("v100x4-two-bus", "v100x4-lone-gpu", "h100x8-two-bus", "a100x16")


def stretch_of(name: str, *changes: tuple[str, float], n_steps: int = 3, workload: str = "burn") -> FleetStretch:
    scenario = ScenarioFile(
        name="made-up",
        description="",
        changes=tuple(Change.model_validate({"at": "60s", "what": what, "to": to}) for what, to in changes),
    )
    fleet = Fleet([load_node(name)], scenario, seed=1, step_s=60.0, workload=load_workload(workload))
    return fleet.advance(n_steps)


@pytest.mark.parametrize("name", SEVERAL)
def test_both_tiers_agree_on_every_supply_and_on_the_lowest_bus(name: str) -> None:
    plant = Plant(load_node(name), UNDISTURBED, 1, workload=BURN)
    plant.advance(4000)
    tail = plant.advance(1000)
    truth = stretch_of(name).truth
    nominal_v = load_node(name).supply.nominal_rail_v
    assert truth.busy_v[0, 0] == pytest.approx(float(np.median(tail.voltage_v)), abs=0.002 * nominal_v)
    # Its fans still follow: those of slots in warm air end faster.
    np.testing.assert_allclose(truth.current_a[0, 0], tail.current_a.mean(axis=0), rtol=0.08)


@pytest.mark.parametrize("name", ["v100x4-two-bus", "h100x8-two-bus"])
def test_the_lowest_voltage_of_a_step_agrees_with_the_millisecond(name: str) -> None:
    node = load_node(name)
    plant = Plant(node, UNDISTURBED, 1, workload=DDP)
    plant.settle()
    lowest_v = float(plant.advance(4000).voltage_v.min())
    lowest_within_v = 0.015 / 12.0 * node.supply.nominal_rail_v  # as the golden table has it for the box
    assert stretch_of(name, workload="ddp").truth.v_min_v[0, 0] == pytest.approx(lowest_v, abs=2.0 * lowest_within_v)


def test_monitors_show_the_bus_of_their_supply_and_the_controller_that_of_the_board() -> None:
    shown = stretch_of("v100x4-two-bus").samples.rail_voltage_v[0, 0, 0]
    assert shown[:2] == pytest.approx([shown[0]] * 2, abs=0.02)
    assert shown[2:] == pytest.approx([shown[2]] * 2, abs=0.02)
    assert shown[2] - shown[0] > 0.05  # the second bus does not carry the rest of the node
    host = stretch_of("a100x16").samples
    assert host.bmc_rail_voltage_v[0, 0, 0] == pytest.approx(53.65, abs=0.8)


def test_a_worn_joint_lowers_its_own_bus_alone() -> None:
    samples = stretch_of("v100x4-two-bus", ("psu2.joint_mohm", 12.0), ("psu3.joint_mohm", 12.0)).samples
    before, after = samples.rail_voltage_v[0, 0, 0], samples.rail_voltage_v[2, 0, 0]
    assert after[:2] == pytest.approx(before[:2], abs=0.02)
    assert (before[2:] - after[2:] > 0.1).all()


def test_a_dark_bus_takes_its_gpus_and_no_other() -> None:
    stretch = stretch_of("v100x4-two-bus", ("psu2.in_service", 0.0), ("psu3.in_service", 0.0))
    assert stretch.truth.present[-1, 0].tolist() == [True, True, False, False]
    assert {drop.gpu for drop in stretch.drops} == {2, 3}
    assert stretch.truth.v_min_v[-1, 0] == 0.0
    assert stretch.truth.node_power_w[-1, 0] > 500.0


def test_a_node_whose_own_bus_is_dark_is_off() -> None:
    truth = stretch_of("a100x16", ("psu4.in_service", 0.0), ("psu5.in_service", 0.0)).truth
    assert truth.node_power_w[-1, 0] == 0.0
    assert not truth.present[-1, 0].any()


def test_nodes_of_several_wirings_live_in_one_fleet() -> None:
    nodes = [load_node(name) for name in ("v100x4", *SEVERAL)]
    truth = Fleet(nodes, seed=1, step_s=60.0, workload=BURN).advance(1).truth
    assert truth.supply_on[0].sum(axis=1).tolist() == [len(node.supply.units) for node in nodes]
    alone = [stretch_of(name, n_steps=1).truth.busy_v[0, 0] for name in SEVERAL]
    assert truth.busy_v[0, 1:] == pytest.approx(alone)
