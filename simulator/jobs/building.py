"""From a workload file to the job that it describes."""

from collections.abc import Sequence

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.files.workload import Hpc, Inference, Trace, Training, Workload
from simulator.jobs.hpc import HpcJob
from simulator.jobs.inference import InferenceJob
from simulator.jobs.pace import CountArray
from simulator.jobs.port import Job
from simulator.jobs.steady import SteadyJob
from simulator.jobs.trace import TraceJob
from simulator.jobs.trace_file import read_series
from simulator.jobs.training import TrainingJob
from simulator.jobs.wanted_level import level_of


def build_job(
    workload: Workload,
    *,
    n_gpus: int,
    nodes: int | Sequence[int] = 1,
    chance: np.random.Generator,
    part: GpuPart | None = None,
) -> Job:
    """Give a job at its start.

    Parameters
    ----------
    nodes
        Over how many nodes the GPUs are spread evenly, or how many of them each node has, in the order of the GPUs.
    part
        The GPU part; only a recording in watts needs it.

    Raises
    ------
    ConfigError
        The recording that is to be played back cannot be used.
    ValueError
        The GPUs do not fill the nodes, or a recording in watts came without a part.
    """
    node_of = _node_of(n_gpus, nodes)
    if isinstance(workload, Training):
        return TrainingJob(workload, node_of=node_of, chance=chance)
    if isinstance(workload, Inference):
        return InferenceJob(workload, n_gpus=n_gpus, chance=chance)
    if isinstance(workload, Hpc):
        return HpcJob(workload, n_gpus=n_gpus, chance=chance)
    if isinstance(workload, Trace):
        return _trace(workload, n_gpus=n_gpus, part=part)
    return SteadyJob(workload, n_gpus=n_gpus)


def _trace(workload: Trace, *, n_gpus: int, part: GpuPart | None) -> TraceJob:
    series = read_series(workload, n_gpus=n_gpus)
    if workload.unit == "level":
        return TraceJob(workload, series, n_gpus=n_gpus, level_of=None)
    if part is None:
        raise ValueError(f"workload {workload.name} is recorded in watts: the GPU part is needed to play it back")
    inverse = level_of(part, input_factor=workload.input_factor)
    return TraceJob(workload, series, n_gpus=n_gpus, level_of=inverse)


def _node_of(n_gpus: int, nodes: int | Sequence[int]) -> CountArray:
    counts = [n_gpus // nodes] * nodes if isinstance(nodes, int) else list(nodes)
    if sum(counts) != n_gpus or min(counts) < 1:
        raise ValueError(f"{n_gpus} GPUs do not fill the nodes {counts}")
    return np.repeat(np.arange(len(counts)), counts)
