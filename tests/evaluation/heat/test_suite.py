import csv
import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from evaluation.heat.loads import loads_w
from evaluation.heat.nodes import FAULTY, HeatNodes
from evaluation.heat.plan import HEAT, HeatPlan, HeatRun
from evaluation.heat.suite import HeatWork, judge_scenes
from evaluation.heat.table import RULES, Call, SceneResult, rows_of
from evaluation.rows import Row
from simulator.files.node import load_node
from telemetry.documents import load_document
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray
from telemetry.records import Cause

SEEDS = (1001, 1002, 1003)
WORSE, WELL, MENDED = "a fifth worse", "healthy", "a fifth worse for two hours"


def short(plan: HeatPlan, *scenes: str) -> HeatRun:
    """Return the run of hours as one of minutes, with these scenes."""
    run = plan.runs["hours"]
    own = {name: run.scenes[name] for name in scenes}
    return run.model_copy(update={"hours": 0.2, "onset_h": (0.1, 0.12), "scenes": own})


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeatPlan:
    """Return the plan over recordings that were made up."""
    loads, training, rooms = tmp_path / "mlperf_power", tmp_path / "mlperf_training_power", tmp_path / "nab"
    for folder in (loads, training, rooms):
        folder.mkdir()
    with (loads / "INDEX.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([["trace", "n", "w_min", "w_max"], ["one", 700, 0, 1000.0], ["short", 20, 0, 1000]])
    with gzip.open(loads / "one.csv.gz", "wt", newline="") as lines:
        levels = [-2 if second == 9 else 900 + 100 * (second % 300 < 200) for second in range(700)]
        csv.writer(lines).writerows([["watts"], *([watts] for watts in levels)])
    with (training / "INDEX.csv").open("w", newline="") as lines:
        head = ["file", "rows", "w_min", "w_max"]
        csv.writer(lines).writerows([head, ["job.csv.gz", 800, 2000.0, 7000.0], ["flat.csv.gz", 800, 6900.0, 7000.0]])
    with gzip.open(training / "job.csv.gz", "wt", newline="") as lines:
        rows = [[2 * place, node, 2000 if place < 10 else 7000] for node in ("node_0", "sw_0") for place in range(400)]
        csv.writer(lines).writerows([["time_s", "node", "watts"], *rows])
    with (rooms / "room.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([["value"], *([72.0] for _ in range(50))])
    monkeypatch.setenv("RAILWATCH_DATA", str(tmp_path))
    whole = load_document(HeatPlan, HEAT)
    return whole.model_copy(update={"inlet": whole.inlet.model_copy(update={"file": "room.csv"})})


def temperatures_c(plan: HeatPlan, *names: str, kind: str = "v100x4") -> FloatArray:
    nodes = HeatNodes(plan, kind, short(plan, *names), SEEDS)
    rows = np.concatenate([gpus.values[:, :, 0] for gpus, _, _ in nodes.frames()])
    return rows.reshape(len(rows), len(names), len(SEEDS), -1)


def test_the_same_nodes_differ_only_by_what_happens_to_them(plan: HeatPlan) -> None:
    temp_c = temperatures_c(plan, WELL, WORSE)
    before, after = temp_c[:360], temp_c[500:]
    assert np.array_equal(before[:, 0], before[:, 1])
    rise_c = (after[:, 1] - after[:, 0]).mean(axis=(0, 1))
    assert rise_c[FAULTY] > 1.5
    assert np.delete(rise_c, FAULTY).max() < 0.5  # the fans follow the hot one, so that the others cool


def test_gpus_of_a_chassis_differ_by_kelvin_for_good_so_that_a_fixed_rule_between_siblings_fails(
    plan: HeatPlan,
) -> None:
    temp_c = temperatures_c(plan, WELL, kind="h100x8")[-120:, 0].mean(axis=0)
    assert np.ptp(temp_c, axis=1).max() > 5.0
    results = judge_scenes(work(plan, WELL, kind="h100x8"))
    assert [call for call in results[0].calls if call.by == "fixed"]
    assert not [call for call in results[0].calls if call.by == "railwatch"]


def test_a_scene_without_duty_differs_only_in_what_the_fans_show(plan: HeatPlan) -> None:
    run = short(plan, "half of the fans", "half of the fans, duty unknown")
    frames = next(HeatNodes(plan, "a100x8", run, SEEDS).frames())
    shown_c, hidden_c = np.split(frames[0].values[:, :, 0], 2, axis=1)
    assert np.array_equal(shown_c, hidden_c)
    shown, hidden = np.split(frames[2].values, 2, axis=1)
    assert np.isfinite(shown).all()
    assert np.isnan(hidden).all()
    assert not np.split(frames[2].fresh, 2, axis=1)[1].any()


@pytest.mark.parametrize("kind", ["v100x4", "a100x8", "h100x8", "b200x8"])
def test_the_load_of_each_kind_of_node_lies_between_its_idle_power_and_its_limit(plan: HeatPlan, kind: str) -> None:
    part = load_node(kind).gpu
    gpus, *_ = next(HeatNodes(plan, kind, short(plan, WELL), SEEDS).frames())
    power_w = gpus.values[:, :, 1]
    assert power_w.min() > 0.75 * part.power.idle_w
    assert 0.5 * part.power_limit_w.default < power_w.max() < 1.3 * part.power_limit_w.default


def test_half_of_the_gpus_rest_until_the_others_have_worked_for_a_while(plan: HeatPlan) -> None:
    scene = "half of the GPUs idle at first"
    gpus, *_ = next(HeatNodes(plan, "h100x8", short(plan, scene), SEEDS).frames())
    power_w = gpus.values[:, :, 1].reshape(len(gpus), len(SEEDS), -1)
    assert (np.sort(power_w[60], axis=1)[:, :4] < 150.0).all()
    assert (np.sort(power_w[60], axis=1)[:, 4:] > 250.0).all()
    assert power_w[-1].min() > 250.0


def test_traces_of_training_are_those_of_one_node_by_the_second_and_flat_ones_are_left_out(plan: HeatPlan) -> None:
    part = load_node("h100x8").gpu
    load_w = loads_w(plan.runs["minutes"].load, part, [np.random.default_rng(1)], seconds=60)[:, 0]
    assert load_w[:18] == pytest.approx(part.power.idle_w)
    assert load_w[22:].min() > 0.55 * part.power_limit_w.default


def work(plan: HeatPlan, *scenes: str, kind: str = "v100x4") -> HeatWork:
    small = plan.model_copy(update={"runs": {"hours": short(plan, *scenes)}})
    return HeatWork(plan=small, kind=kind, run="hours", seeds=SEEDS)


def test_the_same_plan_returns_the_same_answer(plan: HeatPlan) -> None:
    assert judge_scenes(work(plan, WELL)) == judge_scenes(work(plan, WELL))


def test_recordings_that_are_not_there_are_named(plan: HeatPlan, tmp_path: Path) -> None:
    (tmp_path / "mlperf_power" / "INDEX.csv").unlink()
    run = short(plan, WELL)
    other = run.model_copy(update={"load": run.load.model_copy(update={"traces": 3})})
    with pytest.raises(EnvironmentLacksError, match=r"INDEX\.csv"):
        HeatNodes(plan, "h100x8", other, (1,))


def called(
    since_min: float,
    *,
    node: int = 0,
    gpu: int | None = FAULTY,
    cause: Cause = Cause.THERMAL_INTERFACE,
    by: str = "railwatch",
    cleared: bool = False,
) -> Call:
    return Call(by=by, since_s=60.0 * since_min, node=node, gpu=gpu, cause=cause, cleared=cleared)


def result(scene: str, *calls: Call, kind: str = "v100x4") -> SceneResult:
    return SceneResult(scene=scene, kind=kind, n_nodes=2, gpus_per_node=4, hours=24.0, calls=calls)


def rows(*results: SceneResult) -> Mapping[str, Row]:
    return {row.name: row for row in rows_of(results, load_document(HeatPlan, HEAT))}


def test_a_fault_that_is_reported_late_is_found_and_not_within_its_time() -> None:
    found = rows(result(WORSE, called(4.0), called(30.0, node=1)))
    assert found[f"found within 15 min: {WORSE}"].value == 0.5
    assert found[f"longest delay: {WORSE}"].value == 30.0


def test_what_another_rule_calls_stands_beside_ours_and_is_not_ours() -> None:
    found = rows(result(WORSE, called(4.0, by="learnt"), called(5.0, node=1)), result(WELL, called(9.0, by="fixed")))
    assert found[f"found within 15 min: {WORSE}"].value == 0.5
    assert found[f"{RULES['learnt']}: found within 15 min: {WORSE}"].value == 0.5
    assert found[f"{RULES['fixed']}: found within 15 min: {WORSE}"].value == 0.0
    assert found[f"{RULES['fixed']}: calls per healthy GPU-day"].value == pytest.approx(1 / 8)
    assert found["false thermal_interface: calls per healthy GPU-day"].value == 0.0


def test_what_was_reported_before_the_fault_or_of_another_gpu_has_found_nothing_and_is_false() -> None:
    found = rows(result(WORSE, called(-4.0), called(4.0, node=1, gpu=0)))
    assert found[f"found within 15 min: {WORSE}"].value == 0.0
    assert found["false thermal_interface per GPU-day, all scenes"].value == pytest.approx(2 / 8)


def test_an_interface_that_is_reported_where_the_fans_stopped_is_false_and_the_airflow_is_found() -> None:
    found = rows(result("half of the fans", called(2.0, gpu=None, cause=Cause.AIRFLOW), called(9.0)))
    assert found["found within 60 min: half of the fans"].value == 0.5
    assert found["nodes called thermal_interface: half of the fans"].missed


def test_a_finding_that_stays_open_on_a_gpu_that_was_mended_misses_its_goal() -> None:
    name = f"cleared once mended: {MENDED}"
    found = rows(result(MENDED, called(5.0), called(125.0, cleared=True), called(6.0, node=1)))
    assert found[name].value == 0.5
    assert found[name].missed
    assert found[f"delay until cleared: {MENDED}"].value == 5.0


def test_chassis_that_were_held_back_have_rows_of_their_own() -> None:
    found = rows(result(WORSE, called(4.0), called(90.0, node=1)))
    assert found[f"found within 15 min: {WORSE}"].value == 0.5
    assert found["found in time on chassis held back, faults with a goal"].value == 0.0


def test_each_kind_of_node_has_its_own_rows_where_there_are_several() -> None:
    late = {"v100x4": 4.0, "h100x8": 40.0}
    found = rows(*(result(WORSE, called(4.0), called(at, node=1), kind=kind) for kind, at in late.items()))
    assert found[f"found within 15 min: {WORSE}"].value == 0.75
    assert not found["found in time on v100x4, faults with a goal"].missed
    assert found["found in time on h100x8, faults with a goal"].missed


def test_whatever_is_reported_of_a_healthy_node_misses_a_goal() -> None:
    alarm = called(9.0, gpu=None, cause=Cause.AIRFLOW)
    assert rows(result(WELL, alarm))["alarms per node-day without a fault"].missed
    assert not rows(result(WELL))["alarms per node-day without a fault"].missed


def test_a_goal_of_no_false_call_rests_on_two_hundred_healthy_gpu_days() -> None:
    assert rows(result(WELL))["healthy GPU-days"].missed
    assert not rows(*(result(WELL) for _ in range(25)))["healthy GPU-days"].missed
