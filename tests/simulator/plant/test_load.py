from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.files.workload import Training, load_workload
from simulator.plant.load import TrainingLoad
from simulator.plant.models import training_model

DDP = load_workload("ddp")
assert isinstance(DDP, Training)
MODEL = replace(training_model(load_node("v100x4"), DDP), jitter=0.0, skew_ms=0.0)
ALL = np.ones(4, dtype=np.bool_)


def load(seed: int = 1, *, jitter: float = 0.0, skew_ms: float = 0.0) -> TrainingLoad:
    return TrainingLoad(replace(MODEL, jitter=jitter, skew_ms=skew_ms), 4, np.random.default_rng(seed))


def test_a_step_is_computing_and_then_exchanging() -> None:
    level = load().advance(1800, np.full(4, 1530.0), ALL)
    assert (level == 1.0).mean() == pytest.approx(0.72, abs=0.002)
    assert set(np.unique(level)) == {0.35, 1.0}


def test_a_lower_clock_stretches_only_the_share_that_follows_it() -> None:
    job = load()
    job.advance(180_000, np.full(4, 1005.0), ALL)
    stretch = 0.72 * (0.43 * 1530.0 / 1005.0 + 0.57) + 0.28
    assert job.steps == pytest.approx(180_000 / (900.0 * stretch), abs=1.0)


def test_the_slowest_gpu_sets_the_pace_of_all() -> None:
    slowed, together = load(), load()
    slowed.advance(90_000, np.array([1530.0, 1530.0, 1530.0, 1005.0]), ALL)
    together.advance(90_000, np.full(4, 1005.0), ALL)
    assert slowed.steps == together.steps


def test_a_lost_gpu_leaves_the_others_spinning() -> None:
    job = load()
    level = job.advance(5000, np.full(4, 1530.0), np.array([True, True, False, True]))
    assert set(np.unique(level[:, [0, 1, 3]])) == {0.25}
    assert (level[:, 2] == 0.0).all()
    assert job.steps == 0


@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=30), seed=st.integers(0, 100))
def test_load_does_not_depend_on_how_time_is_cut(cuts: list[int], seed: int) -> None:
    clock_mhz = np.full(4, 1200.0)
    whole = load(seed, jitter=0.03, skew_ms=2.0).advance(sum(cuts), clock_mhz, ALL)
    job = load(seed, jitter=0.03, skew_ms=2.0)
    parts = np.concatenate([job.advance(n_ms, clock_mhz, ALL) for n_ms in cuts])
    assert np.abs(whole - parts).max(axis=1).sum() <= 0.65 * 4 * (len(cuts) + 1)  # an edge may fall one ms aside
