"""Each node that comes with railwatch, whole: what its data sheet promises is what the plant then shows."""

import pytest

from simulator.files.loading import names_in
from simulator.files.node import GPUS, NODES, load_node
from simulator.files.rack import RACKS, load_rack
from simulator.files.remarks import numbers_of
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.plant.plant import Plant

HEALTHY = (
    "a100x16",
    "a100x8",
    "b200x8",
    "h100x8",
    "h100x8-orv3",
    "h100x8-two-bus",
    "v100x4",
    "v100x4-double-ring",
    "v100x4-lone-gpu",
    "v100x4-two-bus",
)
# Totals of a branch, milliohm, which the states of the field report (blbadger.github.io/gpu-server) were fitted to.
STATES = {
    "v100x4": [4.4, 4.4],
    "v100x4-banana": [14.8, 14.8],
    "v100x4-xt60": [7.8, 7.8],
    "v100x4-aged": [15.6, 15.6],
    "v100x4-aged-3psu": [15.6, 15.6, 7.8],
    "v100x4-corroded-3psu": [17.0, 17.0, 17.0],
    "v100x4-double-ring": [4.4, 4.4, 4.4],
}


@pytest.mark.parametrize("name", sorted(STATES))
def test_the_states_of_the_box_differ_in_their_branches_alone(name: str) -> None:
    node, base = load_node(name), load_node("v100x4")
    assert [unit.branch_mohm for unit in node.supply.units] == pytest.approx(STATES[name])
    supply = node.supply.model_copy(update={"units": base.supply.units})
    same = {"name": base.name, "description": base.description, "supply": supply}
    assert node.model_copy(update=same) == base


@pytest.mark.parametrize("name", names_in(NODES))
def test_a_node_bears_the_name_of_its_file_and_states_what_it_is_in_one_sentence(name: str) -> None:
    node = load_node(name)
    assert node.name == name
    assert node.description.endswith(".")
    assert len(node.description) <= 110
    load_workload(node.workload)


@pytest.mark.parametrize("name", names_in(NODES))
def test_every_number_of_a_node_and_its_part_has_a_remark(name: str) -> None:
    numbers = numbers_of(NODES / f"{name}.yaml", folder=NODES, parts={"gpu": GPUS})
    assert len(numbers) > 60
    assert [number.key for number in numbers if number.remark is None] == []


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_node_peaks_above_its_power_limit_keeps_cool_and_loses_nothing(name: str) -> None:
    node = load_node(name)
    plant = Plant(node, load_scenario("healthy", node), 1)
    stretch = plant.advance(6000)
    limit_w = node.gpu.power_limit_w.default
    assert 1.05 <= stretch.power_w.max() / limit_w <= 1.3
    assert 0.75 <= stretch.power_w.mean() / limit_w <= 1.05
    assert plant.state.gpus.die_c.max() < node.gpu.temperature_c.gpu_max
    assert plant.state.gpus.present.all()
    assert plant.state.collapsed_ms == 0
    assert stretch.voltage_v.min() > node.gpu.hazard.threshold_v + 5 * node.gpu.hazard.scale_v
    rated_a = min(unit.rated_w / unit.open_circuit_v for unit in node.supply.units)
    assert stretch.current_a.max() < rated_a


@pytest.mark.parametrize("name", HEALTHY)
def test_an_idle_node_takes_little(name: str) -> None:
    node = load_node(name)
    plant = Plant(node, load_scenario("healthy", node), 1, workload=load_workload("idle"))
    power_w = plant.advance(3000).power_w[-500:].mean()
    assert 0.8 * node.gpu.power.idle_w <= power_w <= 1.2 * node.gpu.power.idle_w
    assert 0.08 <= power_w / node.gpu.power_limit_w.default <= 0.16


@pytest.mark.parametrize("name", ["h100x8", "b200x8"])
def test_margins_and_temperatures_report_the_same(name: str) -> None:
    part = load_node(name).gpu
    assert part.tlimit_c is not None
    assert part.temperature_c.gpu_max - part.tlimit_c.slowdown == part.temperature_c.slowdown
    assert part.temperature_c.gpu_max - part.tlimit_c.shutdown == part.temperature_c.shutdown


@pytest.mark.parametrize("name", names_in(RACKS))
def test_the_breaker_of_a_rack_carries_all_its_nodes(name: str) -> None:
    rack = load_rack(name)
    total_w = 0.0
    for node in map(load_node, rack.nodes):
        gpus_w = node.gpu_count * node.gpu.power_limit_w.default
        total_w += (gpus_w + node.other_power_w + node.cooling.max_w) / rack.feed.efficiency
    assert total_w < rack.feed.breaker_w
