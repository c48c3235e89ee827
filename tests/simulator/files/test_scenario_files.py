"""Each scenario that comes with railwatch, whole, and what the loader makes of multiples, groups and mistakes."""

import math
from pathlib import Path

import pytest

from simulator.files.loading import names_in
from simulator.files.node import NODES, load_node
from simulator.files.remarks import numbers_of
from simulator.files.scenario import SCENARIOS, TrueCause, load_scenario
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.plant import Plant
from simulator.plant.state import PlantNodeState
from telemetry.errors import ConfigError, Problem

NODE = load_node("v100x4")
# It has one supply and two cards, whose pins are measured.
SMALL = "rtx5090x2"
OF_PINS = {"pin-ageing", "pin-open"}
QUIET = {
    "ambient-swing",
    "driver-upgrade",
    "healthy",
    "load-change",
    "marginal-stable",
    "normal-day",
    "planned-drain",
    "psu-swap",
    "slot-heat",
}


def run(name: str, seconds: int, *, node: str = "v100x4") -> tuple[PlantNodeState, tuple[PlantEvent, ...], float]:
    """Return the state, the events and the lowest voltage of the last two seconds."""
    plant = begun(name, node)
    lowest_v = gone_on(plant, seconds)
    return plant.state, plant.take_events(), lowest_v


def begun(name: str, node: str = "v100x4") -> Plant:
    loaded = load_node(node)
    return Plant(loaded, load_scenario(name, loaded), 1)


def gone_on(plant: Plant, until_s: int) -> float:
    """Run until then; return the lowest voltage of the last two seconds."""
    plant.advance(1000 * (until_s - 2) - plant.state.now_ms)
    return float(plant.advance(2000).voltage_v.min())


def problems_of(text: str, folder: Path) -> list[Problem]:
    path = folder / "odd.yaml"
    path.write_text(f"name: odd\ndescription: wrong on purpose\n{text}", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_scenario(str(path), NODE)
    return list(raised.value.problems)


@pytest.mark.parametrize("node", sorted({*names_in(NODES)} - {SMALL}))
def test_every_scenario_fits_every_node_but_those_of_pins(node: str) -> None:
    loaded = load_node(node)
    for name in names_in(SCENARIOS):
        if name in OF_PINS:
            with pytest.raises(ConfigError, match=r"pin\d_mohm'; expected a quantity of a gpu"):
                load_scenario(name, loaded)
            continue
        scenario = load_scenario(name, loaded)
        assert scenario.name == name
        assert scenario.include == ()
        assert all(math.isfinite(change.to) and change.times is None for change in scenario.changes)


def test_a_small_box_has_the_scenarios_whose_parts_it_has() -> None:
    loaded = load_node(SMALL)
    for name in OF_PINS | {"healthy", "normal-day", "ac-sag", "hang", "exporter-death"}:
        assert load_scenario(name, loaded).name == name
    with pytest.raises(ConfigError, match=r"got .psu1\.joint_mohm.; expected one of gpu0 to gpu1"):
        load_scenario("psu-sag", loaded)


def test_what_must_be_found_has_a_truth_and_what_must_not_alarm_has_none() -> None:
    nodes = {name: load_node(SMALL) if name in OF_PINS else NODE for name in names_in(SCENARIOS)}
    scenarios = {name: load_scenario(name, node) for name, node in nodes.items()}
    assert {name for name, scenario in scenarios.items() if scenario.kind == "quiet"} == QUIET
    assert {name for name, scenario in scenarios.items() if not scenario.truth} == QUIET
    causes = {truth.cause for scenario in scenarios.values() for truth in scenario.truth}
    assert causes == set(TrueCause)


@pytest.mark.parametrize("name", names_in(SCENARIOS))
def test_every_number_of_a_scenario_has_a_remark(name: str) -> None:
    numbers = numbers_of(SCENARIOS / f"{name}.yaml", folder=SCENARIOS)
    assert [number.key for number in numbers if number.remark is None] == []


def test_times_multiplies_what_each_node_file_states() -> None:
    for node in map(load_node, ("v100x4", "v100x4-aged-3psu", "h100x8")):
        changes = load_scenario("marginal-stable", node).changes
        assert [change.what for change in changes] == [f"{unit.name}.joint_mohm" for unit in node.supply.units]
        assert [change.to for change in changes] == [1.8 * unit.joint_mohm for unit in node.supply.units]


def test_a_truth_about_all_gpus_or_supplies_names_them() -> None:
    assert load_scenario("power-brake", NODE).truth[0].entities == ("gpu0", "gpu1", "gpu2", "gpu3")
    assert load_scenario("ac-sag", load_node("v100x4-aged-3psu")).truth[0].entities == ("psu0", "psu1", "psu2")


def test_a_scenario_that_includes_others_moves_their_truth_too() -> None:
    scenario = load_scenario("sag-and-hot-gpu", NODE)
    assert [(truth.cause, truth.onset) for truth in scenario.truth] == [
        (TrueCause.JOINT_AGEING, 8.0),
        (TrueCause.THERMAL_INTERFACE, 18.0),
    ]


def test_a_workload_by_path_is_looked_for_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "{kind: idle, name: mine, description: d, memory_share: 0, clock_bound_share: 0}", encoding="utf-8"
    )
    path = tmp_path / "s.yaml"
    path.write_text("name: s\ndescription: d\njobs: [{at: 1s, workload: mine.yaml}]\n", encoding="utf-8")
    assert load_scenario(str(path), NODE).jobs[0].workload == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("text", "line", "key", "expected"),
    [
        ("changes: [{at: 1s, what: psu0.joint_mohm}]", 3, "changes[0]", "either to or times"),
        ("changes: [{at: 1s, what: psu0.joint_mohm, to: 1, times: 2}]", 3, "changes[0]", "either to or times"),
        ("changes: [{at: 1s, what: gpus.present, times: 2}]", 3, "changes[0].times", "to in place of times"),
        ("jobs:\n  - {at: 1s, workload: dpp}", 4, "jobs[0].workload", "burn, ddp"),
        ("driver_faults:\n  - {at: 1s, call: '*', gpu: 4}", 4, "driver_faults[0].gpu", "0 to 3"),
        ("sensor_faults:\n  - {at: 1s, sensor: psu0.volts, fault: dead}", 4, "sensor_faults[0].sensor", "voltage_v"),
        ("truth:\n  - {cause: hang, entities: [node], onset: 2m}", 4, "truth[0].onset", "no later than"),
        ("truth:\n  - {cause: hang, entities: [node], onset: 9s, end: 8s}", 4, "truth[0]", "end after onset"),
        ("chnages: []", 3, "chnages", "perhaps changes"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_what_would_have_been_right(
    tmp_path: Path, text: str, line: int, key: str, expected: str
) -> None:
    (problem,) = problems_of(text, tmp_path)
    assert (problem.line, problem.key) == (line, key)
    assert expected in problem.expected


def test_one_reading_reports_shape_and_strangers_in_the_order_of_lines(tmp_path: Path) -> None:
    problems = problems_of(
        "duration: 10s\n"
        "changes:\n"
        "  - {at: 5, what: psu9.joint_mohm, to: 1}\n"
        "  - {at: 5s, what: psu9.joint_mohm, to: 1, ovr: 1s}\n"
        "jobs:\n"
        "  - {at: 1, workload: nosuch}\n"
        "sensor_faults:\n"
        "  - {at: 1s, sensor: gpu9.power_w, fault: bent}\n"
        "driver_faults:\n"
        "  - {at: 1s, call: nvml, gpu: 9}\n"
        "include:\n"
        "  - {scenario: earthquake}\n"
        "truth:\n"
        "  - {cause: nosuch, entities: [gpu9], onset: 20s}\n",
        tmp_path,
    )
    assert [(problem.line, problem.key) for problem in problems] == [
        (5, "changes[0].at"),
        (5, "changes[0].what"),
        (6, "changes[1].ovr"),
        (6, "changes[1].what"),
        (8, "jobs[0].at"),
        (8, "jobs[0].workload"),
        (10, "sensor_faults[0].fault"),
        (10, "sensor_faults[0].sensor"),
        (12, "driver_faults[0].call"),
        (12, "driver_faults[0].gpu"),
        (14, "include[0].scenario"),
        (16, "truth[0].cause"),
        (16, "truth[0].entities[0]"),
        (16, "truth[0].onset"),
    ]


@pytest.mark.parametrize("text", ["changes: 5", "changes: [5]", "truth: [{entities: 5}]", "jobs: [{workload: 5}]"])
def test_what_has_another_shape_is_reported_and_nothing_breaks(tmp_path: Path, text: str) -> None:
    assert all(problem.line == 3 for problem in problems_of(text, tmp_path))


def test_a_lost_supply_leaves_the_node_alive_and_the_bus_lower() -> None:
    state, events, lowest_v = run("psu-lost", 40)
    assert state.powered
    assert state.supplies.on.tolist() == [True, False]
    assert [event.kind for event in events] == [PlantEventKind.SUPPLY_OFF]
    assert lowest_v < 12.05


@pytest.mark.parametrize("node", ["v100x4", "h100x8"])
def test_the_last_supply_trips_under_the_load_of_all(node: str) -> None:
    state, events, _ = run("psu-overload", 34, node=node)
    assert not state.powered
    assert {PlantEventKind.OVER_CURRENT, PlantEventKind.POWER_OFF} <= {event.kind for event in events}


def test_a_mains_sag_ends_and_takes_nothing_with_it() -> None:
    plant = begun("ac-sag")
    during_v = gone_on(plant, 50)
    assert plant.take_events() == ()
    after_v = gone_on(plant, 66)
    assert plant.state.gpus.present.all()
    assert after_v - during_v == pytest.approx(0.3, abs=0.03)


def test_a_hang_keeps_gpus_busy_and_steps_from_ending() -> None:
    plant = begun("hang")
    gone_on(plant, 32)
    state, before = plant.state, plant.state.steps
    gone_on(plant, 40)
    assert state.hung
    assert state.steps == before
    assert (state.gpus.util_ratio > 0.95).all()


@pytest.mark.soak
def test_a_loose_module_counts_errors_that_its_siblings_do_not() -> None:
    crc = run("loose-module", 120)[0].gpus.nvlink_crc.sum(axis=1)
    assert crc[2] > 0
    assert crc[[0, 1, 3]].sum() == 0


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("driver-upgrade", 90),
        *(pytest.param(name, 130, marks=pytest.mark.soak) for name in ("planned-drain", "psu-swap")),
    ],
)
def test_planned_work_ends_with_everything_in_its_place(name: str, seconds: int) -> None:
    state, _, _ = run(name, seconds)
    assert state.powered
    assert state.driver_loaded
    assert state.gpus.present.all()
    assert state.supplies.on.all()
    assert not state.hung


def test_a_marginal_supply_dips_below_11_7_v_and_no_gpu_is_lost() -> None:
    state, _, lowest_v = run("marginal-stable", 20)
    assert 11.5 < lowest_v < 11.7
    assert state.gpus.present.all()


def test_a_synchronous_overload_dips_without_a_larger_resistance() -> None:
    state, _, lowest_v = run("synchronous-overload", 60)
    assert lowest_v < 11.75
    assert state.supplies.joint_mohm.tolist() == [3.4, 3.4]
