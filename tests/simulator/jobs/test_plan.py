import numpy as np
import pytest

from simulator.files.scenario import JobStart, ScenarioFile
from simulator.files.workload import load_workload
from simulator.jobs.plan import JobPlan
from telemetry.errors import ConfigError
from tests.simulator.jobs.running import NODE, advance


def plan(*jobs: JobStart, seed: int = 1) -> JobPlan:
    scenario = ScenarioFile(name="test", description="test", jobs=jobs)
    return JobPlan(scenario, load_workload("idle"), NODE, seed)


def start(at: str, workload: str, input_factor: float | None = None) -> JobStart:
    return JobStart.model_validate({"at": at, "workload": workload, "input_factor": input_factor})


def test_the_nodes_own_workload_runs_until_the_first_job_begins() -> None:
    jobs = plan(start("20s", "hpc"), start("10s", "ddp"))
    names = [jobs.at(time_s).workload.name for time_s in (0.0, 9.99, 10.0, 19.99, 20.0, 1e6)]
    assert names == ["idle", "idle", "ddp", "ddp", "hpc", "hpc"]


def test_a_job_is_the_same_object_as_long_as_it_runs() -> None:
    jobs = plan(start("10s", "ddp"), start("20s", "ddp"))
    assert jobs.at(10.0) is jobs.at(15.0)
    assert jobs.at(20.0) is not jobs.at(15.0)


def test_a_job_may_bring_other_data() -> None:
    jobs = plan(start("10s", "ddp", 0.8), start("20s", "ddp"))
    assert [jobs.at(time_s).workload.input_factor for time_s in (10.0, 20.0)] == [0.8, 1.0]


def test_a_later_job_does_not_change_what_the_ones_before_draw() -> None:
    one, two = plan(start("0s", "ddp")), plan(start("0s", "ddp"), start("60s", "hpc"))
    np.testing.assert_array_equal(advance(one.at(0.0), 30_000), advance(two.at(0.0), 30_000))


def test_seeds_matter() -> None:
    one, two = plan(start("0s", "ddp")), plan(start("0s", "ddp"), seed=2)
    assert (advance(one.at(0.0), 30_000) != advance(two.at(0.0), 30_000)).any()


def test_an_unknown_workload_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="prefill-decode"):
        plan(start("10s", "mining"))
