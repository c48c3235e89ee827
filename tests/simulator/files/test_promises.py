"""Each scenario does on every healthy node what its description states; what takes long comes ten times as early."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from physics.rail_classes import rail_class_of
from simulator.files.loading import names_in
from simulator.files.node import NODES, NodeFile, load_node
from simulator.files.sag import full_load_v
from simulator.files.scenario import SCENARIOS, Change, ScenarioFile, SensorFaultKind, load_scenario
from simulator.files.sensing import EXPORTER, check_sensor
from simulator.files.workload import load_workload
from simulator.fleet.fleet import Fleet
from simulator.plant.events import PlantEventKind
from simulator.plant.plant import Plant
from simulator.plant.state import Stretch
from telemetry.frames import MaskArray

# Of the box, these are the states that the field report calls bad: nothing is promised of a fault beside another one.
BAD = {"v100x4-aged", "v100x4-aged-3psu", "v100x4-banana", "v100x4-corroded-3psu", "v100x4-xt60"}
# A box with one supply, two cards and no sensor of its rail lacks the parts that most scenarios name.
SMALL = {"rtx5090x2"}
FIT = tuple(name for name in names_in(NODES) if name not in BAD | SMALL)
# One of each kind in every run of the tests: the box, two buses, three buses, 48 V. `make soak` has them all.
OFTEN = ("a100x16", "h100x8-orv3", "v100x4", "v100x4-two-bus")
FIT_OFTEN = [name if name in OFTEN else pytest.param(name, marks=pytest.mark.soak) for name in FIT]
SOONER = 0.1
CAPPED = 1057 / 1530  # the share of the clocks that brings the plateau of v100x4 back
DDP = load_workload("ddp")


def hurried(name: str, node: NodeFile) -> ScenarioFile:
    """Return a scenario in which everything comes ten times as early."""
    scenario = load_scenario(name, node)
    changes = tuple(
        change.model_copy(update={"at": SOONER * change.at, "over": SOONER * change.over})
        for change in scenario.changes
    )
    jobs = tuple(job.model_copy(update={"at": SOONER * job.at}) for job in scenario.jobs)
    return scenario.model_copy(update={"changes": changes, "jobs": jobs})


@cache
def steadfast(name: str) -> NodeFile:
    """Return a node whose GPUs stay on their bus however low the voltage, so that there is something to measure."""
    node = load_node(name)
    hazard = node.gpu.hazard.model_copy(update={"rate_per_s": 0.0, "brake_below_v": 0.0})
    return node.model_copy(update={"gpu": node.gpu.model_copy(update={"hazard": hazard})})


def plant_of(scenario: str, node: NodeFile, *, clock_ratio: float = 1.0) -> Plant:
    plant = Plant(node, hurried(scenario, node), 1, workload=DDP)
    plant.obey(replace(plant.settings, app_clock_mhz=np.full(node.gpu_count, clock_ratio * node.gpu.clocks.max_mhz)))
    return plant


def after(scenario: str, node: NodeFile, *, until_ms: int, clock_ratio: float = 1.0) -> Stretch:
    """Return the last two seconds."""
    plant = plant_of(scenario, node, clock_ratio=clock_ratio)
    plant.advance(until_ms - 2000)
    return plant.advance(2000)


@cache
def healthy(name: str) -> Stretch:
    return after("healthy", load_node(name), until_ms=4500)


def plateau_v(stretch: Stretch, bus: int = 0) -> float:
    """Return the median voltage of a bus while all GPUs compute, 100 ms after the last of them began."""
    busy: MaskArray = np.asarray((stretch.level >= 1.0).all(axis=1))
    settled: MaskArray = np.concatenate([np.zeros(100, dtype=np.bool_), busy[:-100]]) & busy
    return float(np.median(stretch.bus_v[settled, bus]))


def lowest_allowed_v(node: NodeFile) -> float:
    rail = rail_class_of(node.supply.nominal_rail_v)
    assert rail is not None
    return rail.lowest_v


@pytest.mark.parametrize("name", FIT)
def test_psu_sag_takes_the_bus_below_its_limit_and_a_clock_cap_brings_it_back(name: str) -> None:
    node = steadfast(name)
    limit_v = lowest_allowed_v(node)
    assert plateau_v(healthy(name)) > limit_v
    sagging = after("psu-sag", node, until_ms=4500)
    assert 0.985 * limit_v < plateau_v(sagging) < limit_v
    assert plateau_v(after("psu-sag", node, until_ms=4500, clock_ratio=CAPPED)) > limit_v
    for bus in range(1, len(node.wiring.buses)):
        assert plateau_v(sagging, bus) == pytest.approx(plateau_v(healthy(name), bus), rel=0.002)


@pytest.mark.parametrize("name", FIT)
def test_the_truth_of_psu_sag_names_every_supply_whose_joint_rises(name: str) -> None:
    node = load_node(name)
    scenario = load_scenario("psu-sag", node)
    (truth,) = scenario.truth
    risen = {change.what.partition(".")[0]: change.to for change in scenario.changes}
    assert truth.entities == tuple(risen)
    assert {node.wiring.of_supply[int(unit.removeprefix("psu"))] for unit in risen} == {0}
    assert full_load_v(node, 0, risen) <= 0.9451 * node.supply.nominal_rail_v


def test_psu_sag_is_the_same_on_the_box_as_it_ever_was() -> None:
    for name in ("v100x4", "v100x4-aged", "v100x4-banana", "v100x4-corroded-3psu", "v100x4-xt60"):
        node = load_node(name)
        psu0, psu1, *_ = (unit.joint_mohm for unit in node.supply.units)
        assert [change.to for change in load_scenario("psu-sag", node).changes] == [3.85 * psu0, 3.56 * psu1]


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_ac_sag_lowers_all_buses_together_and_no_resistance_changes(name: str) -> None:
    node = load_node(name)
    plant = plant_of("ac-sag", node)
    joints = plant.state.supplies.joint_mohm.copy()
    sagged = plant.advance(6000).bus_v[-2000:]
    lost_v = np.median(healthy(name).bus_v, axis=0) - np.median(sagged, axis=0)
    assert 0.02 * node.supply.nominal_rail_v < lost_v.min() <= lost_v.max() < 0.035 * node.supply.nominal_rail_v
    np.testing.assert_array_equal(plant.state.supplies.joint_mohm, joints)
    assert plant.state.gpus.present.all()


@pytest.mark.parametrize("name", FIT)
def test_psu_lost_leaves_the_node_at_work_on_a_lower_bus(name: str) -> None:
    plant = plant_of("psu-lost", load_node(name))
    before_v = float(np.median(plant.advance(3000).bus_v[-1000:, 0]))
    after_v = float(np.median(plant.advance(2000).bus_v[-1000:, 0]))
    assert plant.state.powered
    assert plant.state.gpus.present.all()
    assert np.flatnonzero(~plant.state.supplies.on).tolist() == [1]
    assert after_v < before_v


@pytest.mark.parametrize("name", FIT)
def test_psu_overload_trips_the_supply_that_is_left_and_its_bus_is_dark(name: str) -> None:
    node = load_node(name)
    plant = plant_of("psu-overload", node)
    plant.advance(5500)
    tripped = [event.supply for event in plant.take_events() if event.kind is PlantEventKind.OVER_CURRENT]
    assert tripped == [0]
    assert plant.state.powered == (node.wiring.of_rest != 0)
    assert not plant.state.gpus.present[list(node.wiring.gpus_of(0))].any()


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_loose_screw_raises_one_joint_in_two_steps_and_flickers(name: str) -> None:
    node = load_node(name)
    plant = plant_of("loose-screw", node)
    own = plant.state.supplies.joint_mohm.copy()
    shown = []
    for _ in range(120):
        plant.advance(100)
        shown.append(plant.state.supplies.joint_mohm / own)
    first, second = np.array(shown[21:69]), np.array(shown[71:])
    assert set(np.round(first[:, 0], 6)) <= {1.2, 1.8}
    assert set(np.round(second[:, 0], 6)) <= {2.4, 3.6}
    assert len(np.unique(second[:, 0])) == 2
    assert (np.array(shown)[:, 1:] == 1.0).all()


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_joints_age_by_more_than_a_tenth_and_without_torque_three_times_as_fast(name: str) -> None:
    node = load_node(name)

    def rise(scenario: str, days: int) -> float:
        fleet = Fleet([node], load_scenario(scenario, node), seed=1, step_s=86_400.0, workload=DDP)
        joint_mohm = fleet.advance(days).truth.joint_mohm[:, 0]
        assert (np.diff(joint_mohm, axis=0) >= 0.0).all()
        return float((joint_mohm[-1] / joint_mohm[0]).max())

    aged = rise("joint-ageing", 90)
    assert aged > 1.1
    assert rise("torque-loss", 30) == pytest.approx(aged, rel=0.02)


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_a_synchronous_overload_takes_larger_steps_of_current_and_nothing_is_worn(name: str) -> None:
    plant = plant_of("synchronous-overload", load_node(name))
    joints = plant.state.supplies.joint_mohm.copy()
    stretch = plant.advance(6500)
    highest_a = stretch.current_a.sum(axis=1).max() / healthy(name).current_a.sum(axis=1).max()
    assert highest_a > 1.2
    assert stretch.voltage_v.min() < healthy(name).voltage_v.min()
    assert plant.state.supplies.on.all()
    assert plant.state.gpus.present.all()
    np.testing.assert_array_equal(plant.state.supplies.joint_mohm, joints)


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_marginal_joints_dip_deeper_and_lose_nothing(name: str) -> None:
    plant = plant_of("marginal-stable", load_node(name))
    stretch = plant.advance(4000)
    assert stretch.voltage_v.min() < healthy(name).voltage_v.min()
    assert plant.state.gpus.present.all()


@pytest.mark.parametrize("name", FIT)
def test_the_contact_of_a_loose_module_is_in_proportion_to_the_part_and_no_sag(name: str) -> None:
    node = load_node(name)
    loose, contact = load_scenario("loose-module", node).changes
    assert (loose.what, contact.what) == ("gpu2.looseness", "gpu2.contact_mohm")
    assert contact.to == 0.5 * node.gpu.hazard.internal_mohm
    peak_w = node.gpu.power.base_w + node.gpu.power.dynamic_w
    lost_ratio = contact.to / 1000.0 * peak_w / node.supply.nominal_rail_v**2
    assert 0.0 < lost_ratio < 0.002  # a little, far from the limit


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_a_badly_mounted_gpu_runs_ten_kelvin_hotter(name: str) -> None:
    node = load_node(name)
    stands_behind = np.array([slot.front is not None for slot in node.slots])
    plant = plant_of("hot-gpu", node)
    plant.advance(12_000)
    die_c = plant.state.gpus.die_c
    same_air = (stands_behind == stands_behind[2]) & (np.arange(node.gpu_count) != 2)
    assert die_c[2] - np.median(die_c[same_air]) > 10.0


@pytest.mark.parametrize("name", FIT_OFTEN)
def test_a_gpu_that_drops_takes_no_other_along(name: str) -> None:
    plant = plant_of("bus-drop", load_node(name))
    plant.advance(3000)
    assert np.flatnonzero(~plant.state.gpus.present).tolist() == [3]
    assert plant.state.supplies.on.all()


@pytest.mark.parametrize("name", FIT_OFTEN)
@pytest.mark.parametrize("scenario", ["driver-upgrade", "planned-drain", "psu-swap"])
def test_planned_work_ends_with_everything_in_its_place(scenario: str, name: str) -> None:
    plant = plant_of(scenario, load_node(name))
    plant.advance(14_000)
    state = plant.state
    assert state.powered
    assert state.driver_loaded
    assert state.gpus.present.all()
    assert state.supplies.on.all()


@pytest.mark.parametrize("name", FIT)
def test_air_warms_and_fans_stop_by_shares_that_fit_every_node(name: str) -> None:
    node = load_node(name)

    def ends(scenario: str) -> dict[str, float]:
        last: dict[str, Change] = {change.what: change for change in load_scenario(scenario, node).changes}
        return {what: change.to for what, change in last.items()}

    assert 13.0 <= ends("hot-inlet")["node.inlet_c"] - node.inlet_c <= 18.0
    assert ends("ambient-swing")["node.inlet_c"] < node.inlet_c
    assert ends("fan-loss") == {"node.fans": 0.5}


@pytest.mark.parametrize("name", FIT)
@pytest.mark.parametrize("scenario", ["exporter-death", "sensor-skewed", "sensor-stuck"])
def test_a_sensor_that_fails_is_there(scenario: str, name: str) -> None:
    node = load_node(name)
    (fault,) = load_scenario(scenario, node).sensor_faults
    assert check_sensor(fault.sensor, node) == (fault.sensor,)
    assert fault.fault is (SensorFaultKind.DEAD if fault.sensor == EXPORTER else fault.fault)


def test_slots_behind_others_are_ten_kelvin_hotter_under_load() -> None:
    node = load_node("h100x8")
    plant, behind = Plant(node, load_scenario("slot-heat", node), 1), np.isin(np.arange(8), (0, 3, 4, 7))
    plant.advance(210_000)
    die_c = plant.state.gpus.die_c
    assert die_c[behind].min() - die_c[~behind].max() > 6.0
    assert 8.0 < die_c[behind].mean() - die_c[~behind].mean() < 12.0


def test_every_scenario_is_looked_at() -> None:
    by_plant = {"ac-sag", "bus-drop", "driver-upgrade", "hot-gpu", "loose-screw", "marginal-stable", "planned-drain"}
    by_plant |= {"psu-lost", "psu-overload", "psu-sag", "psu-swap", "synchronous-overload", "healthy", "slot-heat"}
    by_closed_form = {"joint-ageing", "torque-loss"}
    by_values = {"ambient-swing", "exporter-death", "fan-loss", "hot-inlet", "loose-module"}
    by_values |= {"sensor-skewed", "sensor-stuck"}
    # Loads and states of the driver: they name no volt, milliohm or degree, and tests of the box look at each.
    without_unit = {"hang", "load-change", "normal-day", "power-brake"}
    of_others = {"psu-lost-during-job-change", "sag-and-hot-gpu"}
    of_connectors = {"pin-ageing", "pin-open"}  # tests/simulator/sensors/test_pins.py
    looked_at = by_plant | by_closed_form | by_values | without_unit | of_others | of_connectors
    assert looked_at == set(names_in(SCENARIOS))
