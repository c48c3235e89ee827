from collections.abc import Sequence

import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Change, JobStart, Quantity, ScenarioFile
from simulator.files.workload import load_workload
from simulator.fleet.climate import Climate, Surroundings
from simulator.fleet.schedule import JobMix, Schedule
from simulator.plant.timeline import PlantTimetable

NODE = load_node("v100x4")
QUIET = ScenarioFile(name="quiet", description="Nothing changes.")
HOUR_S = 3600.0
MIX = JobMix(shares=((load_workload("ddp"), 0.6), (load_workload("inference-8b"), 0.25), (load_workload("idle"), 0.15)))


def changing(*changes: Change) -> ScenarioFile:
    return ScenarioFile(name="changing", description="Something changes.", changes=changes)


def schedule(scenarios: Sequence[ScenarioFile], *, mix: JobMix | None = None, seed: int = 1) -> Schedule:
    nodes = [NODE] * len(scenarios)
    return Schedule(nodes, scenarios, workload=None, mix=mix, chance=np.random.default_rng(seed))


def test_nodes_with_one_scenario_share_its_changes_and_others_do_not() -> None:
    ramp = changing(Change.model_validate({"at": "1h", "what": "node.inlet_c", "to": 32.2, "over": "2h"}))
    step = changing(Change.model_validate({"at": "1h", "what": "psu1.joint_mohm", "to": 9.0}))
    table = PlantTimetable([NODE] * 4, [ramp, step, ramp, QUIET])
    assert (table.at(0.0)[Quantity.INLET_C] == 22.2).all()
    values = table.at(2.0 * HOUR_S)
    np.testing.assert_allclose(values[Quantity.INLET_C][:, 0], [27.2, 22.2, 27.2, 22.2])
    np.testing.assert_allclose(values[Quantity.JOINT_MOHM][:, 1], [3.4, 9.0, 3.4, 3.4])
    np.testing.assert_allclose(table.at(9.0 * HOUR_S)[Quantity.INLET_C][:, 0], [32.2, 22.2, 32.2, 22.2])


def test_a_node_runs_its_own_workload_until_its_scenario_starts_another() -> None:
    starts = (JobStart.model_validate({"at": "2h", "workload": "idle"}),)
    found = schedule([QUIET, QUIET.model_copy(update={"jobs": starts})])
    names = [found.jobs[index].name for index in found.at(0.0, HOUR_S)]
    assert names == ["ddp", "ddp"]
    names = [found.jobs[index].name for index in found.at(2.0 * HOUR_S, HOUR_S)]
    assert names == ["ddp", "idle"]


def test_a_mix_returns_each_job_its_share_of_the_time() -> None:
    found = schedule([QUIET] * 500, mix=MIX)
    taken = np.array([found.at(hour * HOUR_S, HOUR_S) for hour in range(200)])
    shares = {job.name: float((taken == index).mean()) for index, job in enumerate(found.jobs)}
    assert shares["ddp"] == pytest.approx(0.6, abs=0.03)
    assert shares["inference-8b"] == pytest.approx(0.25, abs=0.03)
    stays = (taken[1:] == taken[:-1]).mean()
    assert stays == pytest.approx(np.exp(-0.25) + (1.0 - np.exp(-0.25)) * (0.36 + 0.0625 + 0.0225), abs=0.02)


def test_a_scenario_that_names_jobs_is_not_mixed() -> None:
    starts = (JobStart.model_validate({"at": "0s", "workload": "hpc", "input_factor": 0.8}),)
    found = schedule([QUIET.model_copy(update={"jobs": starts})] * 3, mix=MIX)
    for hour in range(50):
        (job,) = {found.jobs[index] for index in found.at(hour * HOUR_S, HOUR_S)}
    assert (job.name, job.input_factor) == ("hpc", 0.8)


def test_air_swings_over_the_day_and_wanders() -> None:
    climate = Climate(diurnal_k=4.0, noise_k=0.5, input_swing=0.01)
    around = Surroundings(climate, 200, np.random.default_rng(1))
    offsets = np.array([around.inlet_offset_k(hour * HOUR_S, HOUR_S) for hour in range(240)])
    by_hour = offsets.reshape(10, 24, 200).mean(axis=(0, 2))
    assert by_hour.max() == pytest.approx(4.0, abs=0.2)
    assert by_hour.argmax() == 6
    assert offsets[::24].std() == pytest.approx(0.5, rel=0.2)
    assert around.input_ratio(6.0 * HOUR_S) == pytest.approx(0.99)


def test_air_stands_still_unless_asked() -> None:
    around = Surroundings(Climate(), 3, np.random.default_rng(1))
    assert (around.inlet_offset_k(HOUR_S, HOUR_S) == 0.0).all()
    assert around.input_ratio(HOUR_S) == 1.0
