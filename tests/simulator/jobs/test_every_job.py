"""Properties of every workload that comes with railwatch, and of a recording."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.loading import names_in
from simulator.files.workload import WORKLOADS, Trace, Workload, load_workload
from simulator.jobs.port import Job
from simulator.jobs.synchronous import TIMEOUT_MS
from telemetry.frames import FloatArray
from tests.simulator.jobs.running import N_GPUS, NONE, advance, job_of, without

SYNCHRONOUS = ["ddp", "ddp-checkpoint", "hpc", "llm-pretrain"]
INDEPENDENT = ["burn", "idle", "inference-70b", "inference-8b", "prefill-decode"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "load.csv"
    lines = [f"{second / 10},{150 + 7 * (second % 13)}" for second in range(50)]
    path.write_text("\n".join(["t_s,power_w", *lines]), encoding="utf-8")
    return path


def workload_of(name: str, recording: Path) -> Workload:
    if name != "trace":
        return load_workload(name)
    return Trace(
        kind="trace",
        name="trace",
        description="A recording.",
        memory_share=0.5,
        clock_bound_share=0.5,
        file=recording,
        unit="watt",
    )


def built(name: str, recording: Path, seed: int) -> Job:
    return job_of(workload_of(name, recording), seed=seed, nodes=2)


def test_these_workloads_come_with_railwatch() -> None:
    assert set(names_in(WORKLOADS)) == {*SYNCHRONOUS, *INDEPENDENT}
    for name in names_in(WORKLOADS):
        assert load_workload(name).name == name
        assert job_of(load_workload(name)).collective == (name in SYNCHRONOUS)


Minute = tuple[int, FloatArray, tuple[bool, ...], bool]


def minutes() -> st.SearchStrategy[list[Minute]]:
    """Return stretches in which nothing changes: how long, at which clocks, with which GPUs, hanging or not."""
    clocks = st.lists(st.sampled_from([0.5, 0.657, 0.9, 1.0]), min_size=N_GPUS, max_size=N_GPUS).map(np.array)
    running = st.sampled_from([(True,) * N_GPUS] * 3 + [(True, False, True, True)])
    return st.lists(st.tuples(st.integers(1, 3000), clocks, running, st.sampled_from([False, False, True])), max_size=4)


@pytest.mark.parametrize("name", [*SYNCHRONOUS, *INDEPENDENT, "trace"])
@settings(max_examples=15)
@given(stretches=minutes(), seed=st.integers(0, 100), data=st.data())
def test_not_a_bit_depends_on_how_time_is_cut(
    name: str, recording: Path, stretches: list[Minute], seed: int, data: st.DataObject
) -> None:
    whole, cut = built(name, recording, seed), built(name, recording, seed)
    for n_ms, clock_ratio, present, hang in stretches:
        running = np.array(present)
        expected = whole.advance(n_ms, clock_ratio, running, hang=hang)
        parts: list[FloatArray] = []
        left_ms = n_ms
        while left_ms > 0:
            part_ms = data.draw(st.integers(1, left_ms) if len(parts) < 6 else st.just(left_ms))
            parts.append(cut.advance(part_ms, clock_ratio, running, hang=hang))
            left_ms -= part_ms
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        assert (cut.steps, cut.hung, cut.dead) == (whole.steps, whole.hung, whole.dead)
        assert ((expected >= 0.0) & (expected <= 1.0)).all()
        assert (expected[:, ~running] == 0.0).all()


@pytest.mark.parametrize("name", names_in(WORKLOADS))
def test_the_same_seed_returns_the_same_load_and_another_seed_may_not(name: str) -> None:
    first, again, other = (advance(job_of(load_workload(name), seed=seed), 60_000) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first == other).all() == (name in {"burn", "idle"})


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_synchronous_job_that_lost_a_gpu_spins_and_dies_at_the_time_out(name: str) -> None:
    job = job_of(load_workload(name))
    advance(job, 5000)
    steps = job.steps
    spinning = advance(job, TIMEOUT_MS - 1000, running=without(2))
    assert (job.hung, job.dead) == (True, False)
    assert (spinning[:, [0, 1, 3]] > 0.0).all()
    assert len(np.unique(spinning[:, [0, 1, 3]])) == 1
    after = advance(job, 2000, running=without(2))
    assert (after[:1000, 0] > 0.0).all()
    assert (after[1000:] == 0.0).all()
    assert (job.hung, job.dead, job.steps) == (False, True, steps)


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_hang_holds_a_synchronous_job_as_a_lost_gpu_does(name: str) -> None:
    hanging, lost = job_of(load_workload(name)), job_of(load_workload(name))
    hung, short = advance(hanging, 3000, hang=True), advance(lost, 3000, running=without(0))
    np.testing.assert_array_equal(hung[:, 1:], short[:, 1:])
    assert hanging.hung


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_job_begins_again_once_nothing_holds_it(name: str) -> None:
    job = job_of(load_workload(name))
    advance(job, TIMEOUT_MS, hang=True)
    assert job.dead
    assert (advance(job, 4000).max(axis=0) > 0.25).all()
    assert (job.hung, job.dead) == (False, False)


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_node_without_power_takes_the_job_with_it(name: str) -> None:
    job = job_of(load_workload(name))
    assert (advance(job, 10, running=NONE) == 0.0).all()
    assert (job.hung, job.dead) == (False, True)
    assert (advance(job, 10, running=without(0)) == 0.0).all()  # no process is left that could spin


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_gpus_do_not_notice_that_one_is_lost_or_a_hang(name: str) -> None:
    healthy, short = job_of(load_workload(name)), job_of(load_workload(name))
    expected = advance(healthy, 20_000)
    got = advance(short, 20_000, running=without(1), hang=True)
    np.testing.assert_array_equal(got[:, [0, 2, 3]], expected[:, [0, 2, 3]])
    assert (got[:, 1] == 0.0).all()
    assert (short.hung, short.dead, short.steps) == (False, False, 0)
