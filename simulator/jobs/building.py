"""From a workload file to the job that it describes."""

from collections.abc import Sequence

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.files.precision import check_precision
from simulator.files.workload import Hpc, Inference, SteadyResistance, Trace, Training, Workload
from simulator.jobs.hpc import SolverPhases
from simulator.jobs.independent import Alone, IndependentJob
from simulator.jobs.inference import Requests
from simulator.jobs.port import Job
from simulator.jobs.steady import SteadyLoad
from simulator.jobs.synchronous import SynchronousJob
from simulator.jobs.trace import Playback
from simulator.jobs.trace_file import read_series
from simulator.jobs.training import TrainingSteps
from simulator.jobs.wanted_level import level_of


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


def _alone(workload: Workload, *, n_gpus: int, part: GpuPart, chance: np.random.Generator) -> Alone:
    if isinstance(workload, Inference):
        return Requests(workload, n_gpus=n_gpus, chance=chance)
    if isinstance(workload, Trace):
        inverse = None if workload.unit == "level" else level_of(part, input_factor=workload.input_factor)
        return Playback(read_series(workload, n_gpus=n_gpus), level_of=inverse)
    return SteadyLoad(workload.level if isinstance(workload, SteadyResistance) else 0.0)
