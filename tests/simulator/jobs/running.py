"""Running a job by itself, at clocks that do not change."""

import numpy as np

from simulator.files.node import load_node
from simulator.files.workload import Training, Workload, load_workload
from simulator.jobs.plan import build_job
from simulator.jobs.port import Job
from telemetry.frames import FloatArray, MaskArray

NODE = load_node("v100x4")
N_GPUS = NODE.gpu_count
FULL_CLOCK = np.ones(N_GPUS)
ALL = np.ones(N_GPUS, dtype=np.bool_)
NONE = np.zeros(N_GPUS, dtype=np.bool_)


def ddp(**changes: float | None) -> Training:
    """Return the training of the field report without chance, changed as asked."""
    workload = load_workload("ddp")
    assert isinstance(workload, Training)
    return workload.model_copy(update={"jitter": 0.0, "skew_ms": 0.0, **changes})


def job_of(workload: Workload, *, seed: int = 1, nodes: int = 1) -> Job:
    """Return the job of the four GPUs, spread evenly over some nodes."""
    counts = [N_GPUS // nodes] * nodes
    return build_job(workload, gpus_of_nodes=counts, part=NODE.gpu, chance=np.random.default_rng(seed))


def advance(
    job: Job, n_ms: int, *, clock_ratio: FloatArray = FULL_CLOCK, running: MaskArray = ALL, hang: bool = False
) -> FloatArray:
    return job.advance(n_ms, clock_ratio, running, hang=hang)


def without(*gpus: int) -> MaskArray:
    """Return a mask of running GPUs that lacks some."""
    return ~np.isin(np.arange(N_GPUS), gpus)
