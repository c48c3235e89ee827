"""Jobs of a scenario: how each is built from its workload, which runs when, and on which nodes."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.gpu import GpuPart, check_precision
from simulator.files.node import NodeFile
from simulator.files.rack_scenario import RackJobStart
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Hpc, Inference, SteadyResistance, Trace, Training, Workload, load_workload
from simulator.jobs.independent import ConstantLoad, IndependentJob, IndependentLoad, Playback, level_of
from simulator.jobs.phases import Requests, SolverPhases
from simulator.jobs.port import Job
from simulator.jobs.synchronous import SynchronousJob
from simulator.jobs.trace_file import read_series
from simulator.jobs.training import TrainingSteps
from simulator.plant.chance import stream


def build_job(workload: Workload, *, gpus_of_nodes: Sequence[int], part: GpuPart, chance: np.random.Generator) -> Job:
    """Return a job at its start.

    Parameters
    ----------
    gpus_of_nodes
        How many GPUs each node of the job has, in the order of the GPUs.
    part
        What they are; a recording in watts is played back through its power curve.

    Raises
    ------
    ConfigError
        The recording that is to be played back cannot be used, or the part does not calculate in that precision.
    """
    check_precision(workload.precision, part.architecture, job=workload.name)
    n_gpus = sum(gpus_of_nodes)
    if isinstance(workload, Training):
        steps = TrainingSteps(workload, gpus_of_nodes=gpus_of_nodes, chance=chance)
        return SynchronousJob(workload, steps, stall_level=workload.stall_level)
    if isinstance(workload, Hpc):
        phases = SolverPhases(workload, n_gpus=n_gpus, chance=chance)
        return SynchronousJob(workload, phases, stall_level=workload.output_level)
    return IndependentJob(workload, _alone(workload, n_gpus=n_gpus, part=part, chance=chance))


def _alone(workload: Workload, *, n_gpus: int, part: GpuPart, chance: np.random.Generator) -> IndependentLoad:
    if isinstance(workload, Inference):
        return Requests(workload, n_gpus=n_gpus, chance=chance)
    if isinstance(workload, Trace):
        inverse = None if workload.unit == "level" else level_of(part, input_factor=workload.input_factor)
        return Playback(read_series(workload, n_gpus=n_gpus), level_of=inverse)
    return ConstantLoad(workload.level if isinstance(workload, SteadyResistance) else 0.0)


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
    """Return a workload, with other data where `input_factor` is given; ConfigError where there is none."""
    workload = load_workload(name_or_path, option="jobs")
    if input_factor is None:
        return workload
    return workload.model_copy(update={"input_factor": input_factor})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanningJob:
    """Job on all GPUs of some nodes, in the order of `nodes`, from a time up to another."""

    job: Job
    nodes: tuple[int, ...]
    from_s: float
    until_s: float


class SpanningPlan:
    """The jobs of a rack; one ends when another takes a node of it.

    Attributes
    ----------
    jobs
        All of them, in the order in which they begin.

    Raises
    ------
    ConfigError
        A workload that is named does not exist or cannot be used.
    """

    def __init__(self, starts: Sequence[RackJobStart], nodes: Sequence[NodeFile], seed: int) -> None:
        ordered = sorted(starts, key=lambda start: start.at)
        jobs = []
        for number, start in enumerate(ordered):
            job = build_job(
                job_workload(start.workload, start.input_factor),
                gpus_of_nodes=[nodes[node].gpu_count for node in start.nodes],
                part=nodes[start.nodes[0]].gpu,
                chance=stream(seed, f"spanning job {number}"),
            )
            ends_s = [later.at for later in ordered[number + 1 :] if set(later.nodes) & set(start.nodes)]
            until_s = min(ends_s, default=float("inf"))
            jobs.append(SpanningJob(job=job, nodes=start.nodes, from_s=start.at, until_s=until_s))
        self.jobs = tuple(jobs)

    def at(self, time_s: float) -> tuple[SpanningJob, ...]:
        """Return the jobs that run at a time; no node is in two of them."""
        return tuple(job for job in self.jobs if job.from_s <= time_s < job.until_s)
