import numpy as np

from simulator.files.workload import Hpc, load_workload
from tests.simulator.jobs.running import N_GPUS, advance, job_of


def solver() -> Hpc:
    workload = load_workload("hpc")
    assert isinstance(workload, Hpc)
    return workload.model_copy(update={"output_every": 30.0, "output_for": 3.0})


def test_all_gpus_pause_for_output_at_the_same_moment() -> None:
    down = advance(job_of(solver()), 100_000) == 0.08
    assert (down == down[:, :1]).all()
    begins = np.flatnonzero(np.diff(down[:, 0].astype(int)) > 0) + 1
    assert begins.tolist() == [30_000, 60_000, 90_000]
    assert down[30_000:33_000].all()
    assert not down[33_000:60_000].any()


def test_between_pauses_each_gpu_has_phases_of_its_own() -> None:
    level = advance(job_of(solver()), 30_000)
    assert level.min() >= 0.45
    assert level.max() <= 0.95
    assert len(np.unique(level)) > N_GPUS
    assert len(np.unique(level[0])) == N_GPUS
