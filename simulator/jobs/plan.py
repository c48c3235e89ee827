"""Schedule of jobs."""

from bisect import bisect_right

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload, load_workload
from simulator.jobs.building import build_job
from simulator.jobs.port import Job
from simulator.plant.chance import stream


class JobPlan:
    """The jobs of a scenario on a node, one after the other, and before the first of them the `default`.

    Raises
    ------
    ConfigError
        A workload that the scenario names does not exist or cannot be used.
    """

    def __init__(self, scenario: ScenarioFile, default: Workload, node: NodeFile, seed: int) -> None:
        starts = sorted(scenario.jobs, key=lambda start: start.at)
        workloads = [default, *(job_workload(start.workload, start.input_factor) for start in starts)]
        self._at_s = [start.at for start in starts]
        self._jobs = [
            build_job(workload, gpus_of_nodes=[node.gpu_count], part=node.gpu, chance=stream(seed, f"job {number}"))
            for number, workload in enumerate(workloads)
        ]

    def at(self, time_s: float) -> Job:
        """Return the job in force at a time; the same object as long as it is the same job."""
        return self._jobs[bisect_right(self._at_s, time_s)]


def job_workload(name_or_path: str, input_factor: float | None) -> Workload:
    """Return a workload, with other data where `input_factor` says so; ConfigError where there is none."""
    workload = load_workload(name_or_path, option="jobs")
    if input_factor is None:
        return workload
    return workload.model_copy(update={"input_factor": input_factor})
