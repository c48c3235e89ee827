from itertools import pairwise

import numpy as np
import pytest

from simulator.files.workload import Hpc, Inference, load_workload
from simulator.plant.power import part_power
from telemetry.frames import FloatArray
from tests.simulator.jobs.running import N_GPUS, NODE, advance, job_of


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


def prefill_decode(**changes: float | tuple[float, float]) -> Inference:
    workload = load_workload("prefill-decode")
    assert isinstance(workload, Inference)
    return workload.model_copy(update=changes)


def lengths_ms(mask: FloatArray) -> list[int]:
    """Return how long each stretch of ones lasts, all but the first and the last."""
    edges = np.flatnonzero(np.diff(mask))
    bounds = edges + 1
    return [int(stop - start) for start, stop in pairwise(bounds) if mask[start] == 1.0]


def test_each_request_is_a_burst_of_prefill_and_then_decodes() -> None:
    level = advance(job_of(prefill_decode()), 600_000)[:, 0]
    prefills = np.asarray(lengths_ms((level == 0.9).astype(np.float64)))
    assert len(prefills) > 40
    assert prefills.min() >= 199
    assert prefills.max() <= 1001
    others = np.unique(level[level < 0.9])
    assert others[0] == 0.0
    assert ((others[1:] >= 0.25) & (others[1:] <= 0.45)).all()


def test_requests_come_as_often_as_the_file_states() -> None:
    level = advance(job_of(prefill_decode(requests_per_s=0.05)), 4_000_000)
    bursts = np.count_nonzero(np.diff((level == 0.9).astype(int), axis=0) > 0, axis=0)
    assert bursts.mean() / 4000.0 == pytest.approx(0.05, rel=0.1)


def test_gpus_go_their_own_ways() -> None:
    level = advance(job_of(prefill_decode()), 600_000)
    between = np.asarray(np.corrcoef(level.T))[np.triu_indices(N_GPUS, 1)]
    assert np.abs(between).max() < 0.2


def test_a_lower_clock_makes_requests_last_longer() -> None:
    workload = prefill_decode(clock_bound_share=1.0, requests_per_s=1.0)
    fast = advance(job_of(workload), 900_000)[:, 0]
    slow = advance(job_of(workload), 900_000, clock_ratio=np.full(N_GPUS, 0.5))[:, 0]
    lengths = [np.mean(lengths_ms((level == 0.9).astype(np.float64))) for level in (fast, slow)]
    assert lengths[1] / lengths[0] == pytest.approx(2.0, rel=0.1)


# The field report gives 75 W per GPU for a model of 8 billion parameters and 125 W for one of 70. Dies are between 28
# and 45 degC then, which makes 2 W; with the two digits of the report that is 4 % of either.
@pytest.mark.parametrize(("name", "reported_w"), [("inference-8b", 75.0), ("inference-70b", 125.0)])
@pytest.mark.parametrize("die_c", [28.0, 45.0])
def test_inference_draws_what_the_field_report_states(name: str, reported_w: float, die_c: float) -> None:
    level = advance(job_of(load_workload(name)), 900_000)
    clock_mhz = np.full(N_GPUS, float(NODE.gpu.clocks.max_mhz))
    mean_w = part_power(NODE.gpu).power_w(clock_mhz, level.mean(axis=0), np.full(N_GPUS, die_c))
    assert mean_w == pytest.approx([reported_w] * N_GPUS, rel=0.04)
