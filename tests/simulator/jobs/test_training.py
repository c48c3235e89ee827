import numpy as np
import pytest

from simulator.files.workload import Training
from telemetry.frames import FloatArray
from tests.simulator.jobs.running import FULL_CLOCK, N_GPUS, advance, ddp, job_of

CAPPED = np.full(N_GPUS, 1005.0 / 1530.0)


def computing(level: FloatArray) -> FloatArray:
    busy: FloatArray = (level == 1.0).astype(np.float64)
    return busy


def test_a_step_is_computing_and_then_exchanging() -> None:
    level = advance(job_of(ddp()), 1800)
    assert computing(level).mean() == pytest.approx(0.72, abs=0.002)
    assert set(np.unique(level)) == {0.35, 1.0}
    assert computing(level[:648]).all()
    assert not computing(level[650:900]).any()


def test_a_thousand_steps_take_a_thousand_times_one() -> None:
    job = job_of(ddp())
    advance(job, 900_000)
    assert job.steps == pytest.approx(1000, abs=1)


def test_a_lower_clock_stretches_only_the_share_that_follows_it() -> None:
    job = job_of(ddp())
    advance(job, 180_000, clock_ratio=CAPPED)
    stretch = 0.72 * (0.43 * 1530.0 / 1005.0 + 0.57) + 0.28
    assert job.steps == pytest.approx(180_000 / (900.0 * stretch), abs=1.0)


def test_the_slowest_gpu_sets_the_pace_of_all() -> None:
    slowed, together = job_of(ddp()), job_of(ddp())
    level = advance(slowed, 90_000, clock_ratio=np.where(np.arange(N_GPUS) == 3, CAPPED, FULL_CLOCK))
    advance(together, 90_000, clock_ratio=CAPPED)
    assert slowed.steps == together.steps
    share = computing(level).mean(axis=0)
    assert share[3] > share[0] + 0.05
    assert share[0] == pytest.approx(share[1], abs=1e-3)


def test_a_clock_that_changes_within_a_step_changes_the_rest_of_it() -> None:
    job = job_of(ddp())
    advance(job, 324)  # half of the work
    level = advance(job, 800, clock_ratio=CAPPED)
    expected_ms = 324 * (0.43 * 1530.0 / 1005.0 + 0.57)
    assert computing(level[:400])[:, 0].sum() == pytest.approx(expected_ms, abs=1.0)


def test_gpus_begin_a_step_a_little_apart() -> None:
    level = advance(job_of(ddp(skew_ms=20.0)), 900)
    begins = np.argmax(computing(level), axis=0)
    assert len(np.unique(begins)) == N_GPUS
    assert begins.max() < 100


def test_nodes_begin_a_step_apart_and_the_gpus_of_one_together() -> None:
    level = advance(job_of(ddp(node_skew_ms=20.0), nodes=2), 900)
    begins = np.argmax(computing(level), axis=0)
    assert begins[0] == begins[1]
    assert begins[2] == begins[3]
    assert begins[0] != begins[2]


def test_nodes_of_one_job_are_one_to_ten_milliseconds_apart() -> None:
    job = job_of(ddp(), nodes=2)
    busy = computing(advance(job, 90_000))
    rises = [np.flatnonzero(np.diff(busy[:, gpu], prepend=0.0) > 0) for gpu in (0, 2)]
    apart_ms = np.abs(rises[0] - rises[1])
    assert 1.0 < np.median(apart_ms) < 10.0


def saving() -> Training:
    return ddp(checkpoint_every=10.0, checkpoint_for=4.0, skew_ms=20.0)


def test_a_checkpoint_keeps_all_gpus_down_and_then_lets_them_rise_together() -> None:
    level = advance(job_of(saving()), 30_000)
    down = (level == 0.15).all(axis=1)
    begin = int(np.argmax(down))
    assert 10_000 <= begin < 11_000
    assert down[begin : begin + 3999].all()
    end = begin + int(np.argmin(down[begin:]))
    assert end - begin == pytest.approx(4000, abs=1)
    assert (level[end - 1] == 0.15).all()
    assert (level[end] == 1.0).all()


def test_checkpoints_come_again_and_cost_steps() -> None:
    job, without = job_of(saving()), job_of(ddp(skew_ms=20.0))
    down = (advance(job, 120_000) == 0.15).all(axis=1)
    advance(without, 120_000)
    assert np.count_nonzero(np.diff(down.astype(int)) > 0) == 8
    assert job.steps < without.steps * 0.75


def test_a_step_that_hung_is_begun_again() -> None:
    job = job_of(ddp())
    advance(job, 600)
    advance(job, 1000, hang=True)
    assert computing(advance(job, 648)).all()
    assert job.steps == 0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_job_that_only_computes_or_only_exchanges_moves_on(share: float) -> None:
    job = job_of(ddp(exchange_share=share))
    advance(job, 9000)
    assert job.steps == pytest.approx(10, abs=1)
