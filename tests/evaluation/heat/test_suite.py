import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from evaluation.heat.nodes import FAULTY, HeatNodes
from evaluation.heat.plan import HEAT, HeatPlan
from evaluation.heat.suite import RaisedFinding, SceneResult, judge_scenes, rows_of
from evaluation.rows import Row
from simulator.files.node import load_node
from telemetry.documents import load_document
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray
from telemetry.records import Cause

N_NODES = 3
WORSE, WELL = "a fifth worse", "healthy"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeatPlan:
    """Return a plan of minutes over recordings that were made up."""
    loads, rooms = tmp_path / "mlperf_power", tmp_path / "nab"
    loads.mkdir()
    rooms.mkdir()
    with (loads / "INDEX.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([["trace", "n", "w_max"], ["one", 700, 1000.0], ["short", 20, 1000.0]])
    with gzip.open(loads / "one.csv.gz", "wt", newline="") as lines:
        levels = [-2 if second == 9 else 900 + 100 * (second % 300 < 200) for second in range(700)]
        csv.writer(lines).writerows([["watts"], *([watts] for watts in levels)])
    with (rooms / "room.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([["value"], *([72.0] for _ in range(50))])
    monkeypatch.setenv("RAILWATCH_DATA", str(tmp_path))
    whole = load_document(HeatPlan, HEAT)
    return whole.model_copy(
        update={"hours": 0.2, "onset_h": (0.1, 0.12), "inlet": whole.inlet.model_copy(update={"file": "room.csv"})}
    )


def temperatures_c(plan: HeatPlan, *names: str) -> FloatArray:
    nodes = HeatNodes(plan, "v100x4", [plan.scenes[name] for name in names], n_nodes=N_NODES)
    rows = np.concatenate([gpus.values[:, :, 0] for gpus, _, _ in nodes.frames()])
    return rows.reshape(len(rows), len(names), N_NODES, -1)


def test_the_same_nodes_differ_only_by_what_happens_to_them(plan: HeatPlan) -> None:
    temp_c = temperatures_c(plan, WELL, WORSE)
    before, after = temp_c[:360], temp_c[500:]
    assert np.array_equal(before[:, 0], before[:, 1])
    rise_c = (after[:, 1] - after[:, 0]).mean(axis=(0, 1))
    assert rise_c[FAULTY] > 1.5
    assert np.delete(rise_c, FAULTY).max() < 0.5  # the fans follow the hot one, so that the others cool


def test_a_scene_without_duty_differs_only_in_what_the_fans_show(plan: HeatPlan) -> None:
    scenes = [plan.scenes[name] for name in ("half of the fans", "half of the fans, duty unknown")]
    frames = next(HeatNodes(plan, "a100x8", scenes, n_nodes=N_NODES).frames())
    shown_c, hidden_c = np.split(frames[0].values[:, :, 0], 2, axis=1)
    assert np.array_equal(shown_c, hidden_c)
    shown, hidden = np.split(frames[2].values, 2, axis=1)
    assert np.isfinite(shown).all()
    assert np.isnan(hidden).all()
    assert not np.split(frames[2].fresh, 2, axis=1)[1].any()


@pytest.mark.parametrize("kind", ["v100x4", "a100x8", "h100x8", "b200x8"])
def test_the_load_of_each_kind_of_node_lies_between_its_idle_power_and_its_limit(plan: HeatPlan, kind: str) -> None:
    part = load_node(kind).gpu
    gpus, *_ = next(HeatNodes(plan, kind, [plan.scenes[WELL]], n_nodes=N_NODES).frames())
    power_w = gpus.values[:, :, 1]
    assert power_w.min() > 0.8 * part.power.idle_w
    assert 0.5 * part.power_limit_w.default < power_w.max() < 1.3 * part.power_limit_w.default


def test_the_same_plan_returns_the_same_answer(plan: HeatPlan) -> None:
    assert judge_scenes((plan, "v100x4", (WELL,), N_NODES)) == judge_scenes((plan, "v100x4", (WELL,), N_NODES))


def test_recordings_that_are_not_there_are_named(plan: HeatPlan, tmp_path: Path) -> None:
    (tmp_path / "mlperf_power" / "INDEX.csv").unlink()
    other = plan.load.model_copy(update={"traces": 3})
    with pytest.raises(EnvironmentLacksError, match=r"INDEX\.csv"):
        HeatNodes(plan.model_copy(update={"load": other}), "h100x8", [plan.scenes[WELL]], n_nodes=1)


def reported(
    since_min: float, *, node: int = 0, gpu: int | None = FAULTY, cause: Cause = Cause.THERMAL_INTERFACE
) -> RaisedFinding:
    return RaisedFinding(since_s=60.0 * since_min, node=node, gpu=gpu, cause=cause)


def rows(**scenes: tuple[RaisedFinding, ...]) -> dict[str, Row]:
    plan = load_document(HeatPlan, HEAT)
    named = {"well": WELL, "worse": WORSE, "fans": "half of the fans", "inlet": "a hot inlet"}
    results = [SceneResult(scene=named[name], kind="v100x4", n_nodes=2, reported=one) for name, one in scenes.items()]
    return {row.name: row for row in rows_of(results, plan)}


def test_a_fault_that_is_reported_late_is_found_and_not_within_its_time() -> None:
    found = rows(worse=(reported(4.0), reported(30.0, node=1)))
    assert found[f"found within 15 min: {WORSE}"].value == 0.5
    assert found[f"longest delay: {WORSE}"].value == 30.0


def test_what_was_reported_before_the_fault_or_of_another_gpu_has_found_nothing_and_is_false() -> None:
    found = rows(worse=(reported(-4.0), reported(4.0, node=1, gpu=0)))
    assert found[f"found within 15 min: {WORSE}"].value == 0.0
    assert found["false thermal_interface per node-day, all scenes"].value == pytest.approx(2 / (2 * 33 / 24))


def test_an_interface_that_is_reported_where_the_fans_stopped_is_false_and_the_airflow_is_found() -> None:
    found = rows(fans=(reported(2.0, gpu=None, cause=Cause.AIRFLOW), reported(9.0)))
    assert found["found within 60 min: half of the fans"].value == 0.5
    assert found["nodes called thermal_interface: half of the fans"].missed


def test_each_kind_of_node_has_its_own_rows_where_there_are_several() -> None:
    plan = load_document(HeatPlan, HEAT)
    results = [
        SceneResult(scene=WORSE, kind=kind, n_nodes=2, reported=(reported(4.0), reported(since, node=1)))
        for kind, since in (("v100x4", 4.0), ("h100x8", 40.0))
    ]
    found = {row.name: row for row in rows_of(results, plan)}
    assert found[f"found within 15 min: {WORSE}"].value == 0.75
    assert not found["found in time on v100x4, faults with a goal"].missed
    assert found["found in time on h100x8, faults with a goal"].missed


def test_whatever_is_reported_of_a_healthy_node_misses_a_goal() -> None:
    assert rows(well=(reported(9.0, gpu=None, cause=Cause.AIRFLOW),))["alarms per node-day without a fault"].missed
    assert not rows(well=())["alarms per node-day without a fault"].missed
