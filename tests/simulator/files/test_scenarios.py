"""Early symptoms of each scenario, with and without the clock cap that should cure it."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from simulator.files.loading import names_in
from simulator.files.node import load_node
from simulator.files.scenario import SCENARIOS, load_scenario
from simulator.plant.events import PlantEventKind
from simulator.plant.plant import Plant
from simulator.plant.state import Stretch
from telemetry.errors import ConfigError
from telemetry.frames import FloatArray

NODE = load_node("v100x4")


# The same node with GPUs that stay on their bus however low the voltage, so that there is something to measure.
_NO_HAZARD = NODE.gpu.hazard.model_copy(update={"rate_per_s": 0.0})
STEADFAST = NODE.model_copy(update={"gpu": NODE.gpu.model_copy(update={"hazard": _NO_HAZARD})})
FIVE = ("bus-drop", "healthy", "hot-gpu", "power-brake", "psu-sag")


@cache
def run(name: str, *, app_clock_mhz: float = np.inf, seconds: int = 40) -> Stretch:
    plant = Plant(STEADFAST, load_scenario(name, STEADFAST), 1)
    plant.obey(replace(plant.settings, app_clock_mhz=np.full(4, app_clock_mhz)))
    return plant.advance(seconds * 1000)


def plateau_v(stretch: Stretch, *, from_s: float, to_s: float = 40.0) -> FloatArray:
    """Return the voltage while all GPUs compute, 100 ms after the last of them began."""
    rows = slice(int(from_s * 1000), int(to_s * 1000))
    busy = (stretch.level[rows] == 1.0).all(axis=1)
    settled = busy & np.concatenate([np.zeros(100, dtype=np.bool_), busy[:-100]])
    plateau: FloatArray = stretch.voltage_v[rows][settled]
    return plateau


def test_the_five_scenarios_come_with_railwatch() -> None:
    assert set(FIVE) <= set(names_in(SCENARIOS))
    for name in FIVE:
        scenario = load_scenario(name, NODE)
        assert scenario.name == name
        assert bool(scenario.truth) == (name != "healthy")


@pytest.mark.parametrize("name", FIVE)
def test_every_scenario_begins_with_eight_healthy_seconds(name: str) -> None:
    np.testing.assert_array_equal(run(name, seconds=8).voltage_v, run("healthy", seconds=8).voltage_v)


def test_psu_sag_brings_the_plateau_below_11_4_v_and_no_further_than_a_dip() -> None:
    sagging = run("psu-sag")
    assert 11.25 <= float(np.median(plateau_v(sagging, from_s=25.0))) <= 11.35
    assert float(np.percentile(plateau_v(sagging, from_s=25.0), 90)) < 11.40
    assert float(sagging.voltage_v.min()) > 11.0
    assert float(np.median(plateau_v(sagging, from_s=0.0, to_s=8.0))) > 11.85


@pytest.mark.parametrize("app_clock_mhz", [1005.0, 1057.0, 1147.0])
def test_a_clock_cap_brings_the_sagging_plateau_back_above_11_5_v(app_clock_mhz: float) -> None:
    capped = plateau_v(run("psu-sag", app_clock_mhz=app_clock_mhz), from_s=25.0)
    assert float(np.percentile(capped, 5)) > 11.50


def test_both_joints_carry_unequally_but_within_what_the_supplies_are_rated_for() -> None:
    sagging = run("psu-sag")
    rated_a = 1100.0 / 12.0
    assert float(sagging.current_a.max()) < rated_a
    assert (sagging.current_a[30_000:, 1] > sagging.current_a[30_000:, 0]).all()


def test_hot_gpu_is_more_than_10_k_above_its_siblings_within_half_a_minute() -> None:
    plant = Plant(NODE, load_scenario("hot-gpu", NODE), 1)
    plant.advance(8000)
    before = float(plant.state.gpus.die_c[2] - np.median(plant.state.gpus.die_c[[0, 1, 3]]))
    plant.advance(22_000)
    after = float(plant.state.gpus.die_c[2] - np.median(plant.state.gpus.die_c[[0, 1, 3]]))
    assert abs(before) < 2.0
    assert after > 10.0
    assert plant.state.gpus.die_c.max() < NODE.gpu.temperature_c.gpu_max


def test_bus_drop_loses_one_gpu_and_reports_xid_79_within_two_seconds() -> None:
    plant = Plant(NODE, load_scenario("bus-drop", NODE), 1)
    plant.advance(12_100)
    assert plant.state.gpus.present.tolist() == [True, True, True, False]
    plant.advance(2000)
    (xid,) = [event for event in plant.take_events() if event.kind is PlantEventKind.XID and event.gpu == 3]
    assert xid.code == 79
    assert 12_000 <= xid.time_ms <= 14_010
    assert plant.advance(10_000).power_w[-1, 3] == 0.0


def test_power_brake_comes_three_times_and_halves_the_clock() -> None:
    plant = Plant(NODE, load_scenario("power-brake", NODE), 1)
    braked = []
    for _ in range(600):
        plant.advance(100)
        braked.append(bool((plant.state.gpus.reasons & np.uint64(0x88) == 0x88).all()))
        if braked[-1]:
            assert plant.state.gpus.clock_mhz.max() <= 765.0
    assert sum(now and not before for before, now in zip([False, *braked], braked, strict=False)) == 3
    assert plant.state.gpus.counters_ms["power_brake"].tolist() == pytest.approx([13_000] * 4, abs=50)


def test_an_unknown_scenario_states_which_there_are() -> None:
    with pytest.raises(ConfigError, match=r"bus-drop, .*healthy"):
        load_scenario("earthquake", NODE)


def test_everything_that_the_node_does_not_have_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\n"
        "description: wrong on purpose\n"
        "changes:\n"
        "  - {at: 1s, what: gpu9.present, to: 0}\n"
        "  - {at: 1s, what: psu0.interface_k_per_w, to: 0}\n"
        "  - {at: 1s, what: node.inlet_c, to: 30}\n"
        "truth:\n"
        "  - {cause: loose_module, entities: [gpu9], onset: 1s}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_scenario(str(path), NODE)
    found = [(problem.line, problem.key) for problem in raised.value.problems]
    assert found == [(4, "changes[0].what"), (5, "changes[1].what"), (8, "truth[0].entities[0]")]


@pytest.mark.parametrize("change", ["{at: 5, what: gpu0.present, to: 0}", "{at: 5s, what: gpu0, to: 0}"])
def test_a_change_without_a_unit_or_a_quantity_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(f"name: odd\ndescription: odd\nchanges:\n  - {change}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_scenario(str(path), NODE)
    assert raised.value.problems[0].line == 4
