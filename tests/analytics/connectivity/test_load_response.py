"""Tests of experiments on GPUs in step: each supply's response, and the wiring that they show together."""

from collections.abc import Sequence

import numpy as np
import pytest

from analytics.connectivity.alignment import aligned_power
from analytics.connectivity.dither import plan_dither
from analytics.connectivity.load_response import (
    LoadResponse,
    contrasts_around,
    contrasts_of,
    load_response,
)
from analytics.connectivity.wiring_learning import LearntWiring, learn_wiring
from telemetry.frames import FloatArray

STEP_S = 0.1
QUIET_S, LEVEL_S, PAIRS = 90.0, 3.0, 6
STEP_W, SLOWED_W = 40.0, 6.0
PLAN = plan_dither("gpu:a", clock_mhz=1335.0, supported_mhz=(1215.0, 1335.0), level_s=LEVEL_S, pairs=PAIRS, seed=3)


def _loads(rng: np.random.Generator, n_gpus: int, seconds: float) -> FloatArray:
    """Return power of GPUs that rise and fall together every 0.9 s, as in a synchronous job."""
    at_s = np.arange(round(seconds / STEP_S)) * STEP_S
    in_step = 250.0 + 60.0 * np.sign(np.sin(2.0 * np.pi * at_s / 0.9)) + rng.normal(0.0, 8.0, len(at_s))
    return np.tile(in_step[:, np.newaxis], (1, n_gpus))


def _shown(rng: np.random.Generator, loads: FloatArray, buses: Sequence[int], gpus: Sequence[int]) -> FloatArray:
    """Return what supplies show that share their bus unevenly, in steps of 1.5 W as a coarse meter does."""
    shares = rng.uniform(0.8, 1.2, len(buses))
    supply_w = np.empty((len(loads), len(buses)))
    for supply, bus in enumerate(buses):
        share = shares[supply] / sum(one for one, own in zip(shares, buses, strict=True) if own == bus)
        on = [gpu for gpu, own in enumerate(gpus) if own == bus]
        supply_w[:, supply] = 40.0 + share * loads[:, on].sum(axis=1) + rng.normal(0.0, 3.0, len(loads))
    return np.round(supply_w / 1.5) * 1.5


def _read(rng: np.random.Generator, loads: FloatArray) -> FloatArray:
    return loads * rng.normal(1.0, 0.03, loads.shape[1]) + rng.normal(0.0, 2.0, loads.shape)


def _moved(
    rng: np.random.Generator, buses: Sequence[int], gpus: Sequence[int], gpu: int, *, follows: bool = True
) -> LoadResponse | None:
    """Dither one GPU: it draws 40 W less at the lower level, and all others wait for it and draw 6 W less."""
    assert PLAN is not None
    loads = _loads(rng, len(gpus), 30.0 + PLAN.duration_s)
    at_s = np.arange(len(loads)) * STEP_S - 30.0
    for level in PLAN.levels:
        inside = (at_s >= level.start_s) & (at_s < level.stop_s)
        if not level.is_high and follows:
            loads[inside] -= SLOWED_W
            loads[inside, gpu] -= STEP_W - SLOWED_W
    aligned = aligned_power(_shown(rng, loads, buses, gpus), _read(rng, loads), step_s=STEP_S)
    contrasts = [one.later(30.0) for one in contrasts_of(PLAN.levels)]
    return load_response(aligned.supply_w, aligned.gpu_w, gpu, contrasts, step_s=STEP_S, window_s=aligned.window_s)


def _learnt(rng: np.random.Generator, buses: Sequence[int], gpus: Sequence[int], moved: Sequence[int]) -> LearntWiring:
    responses = [one for gpu in moved if (one := _moved(rng, buses, gpus, gpu)) is not None]
    loads = _loads(rng, len(gpus), QUIET_S)
    learnt = learn_wiring(_shown(rng, loads, buses, gpus), _read(rng, loads), step_s=STEP_S, responses=responses)
    assert learnt is not None
    return learnt


def _canonical(labels: Sequence[int]) -> tuple[int, ...]:
    names: dict[int, int] = {}
    return tuple(names.setdefault(label, len(names)) for label in labels)


def _links(learnt: LearntWiring) -> tuple[int, ...]:
    return _canonical([link.bus for link in (*learnt.supplies, *learnt.gpus)])


@pytest.mark.parametrize("seed", range(5))
def test_the_supplies_of_a_moved_gpu_share_its_change_and_others_show_none(seed: int) -> None:
    found = _moved(np.random.default_rng(seed), [0, 0, 1], [0, 0, 0, 1], 0)
    assert found is not None
    assert found.gpu_w == pytest.approx(STEP_W - SLOWED_W, rel=0.2)
    assert found.supply_w[:2].sum() == pytest.approx(found.gpu_w, rel=0.2)
    assert abs(found.supply_w[2]) < max(4.0 * found.error_w[2], 0.1 * found.gpu_w)


def test_a_gpu_whose_power_does_not_follow_shows_nothing() -> None:
    found = [_moved(np.random.default_rng(seed), [0, 1], [0, 0, 1, 1], 0, follows=False) for seed in range(20)]
    assert sum(one is not None for one in found) <= 1


def test_a_load_that_was_started_by_hand_is_a_change_upwards() -> None:
    rng = np.random.default_rng(1)
    loads = np.full((420, 2), 60.0)
    loads[140:280, 1] = 250.0
    power = aligned_power(_shown(rng, loads, [0, 1], [0, 1]), _read(rng, loads), step_s=STEP_S)
    contrasts = contrasts_around((1.0, 13.0), (15.0, 27.0), (29.0, 41.0))
    found = load_response(power.supply_w, power.gpu_w, 1, contrasts, step_s=STEP_S, window_s=power.window_s)
    assert found is not None
    assert found.gpu_w == pytest.approx(190.0, rel=0.1)
    assert found.supply_w == pytest.approx([0.0, 190.0], abs=10.0)


def _random_wiring(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Return the buses of 2 to 8 supplies and of 4 to 16 GPUs on 1 to 3 buses, each with a supply and a GPU."""
    n_buses = int(rng.integers(1, 4))
    n_supplies, n_gpus = int(rng.integers(max(2, n_buses), 9)), int(rng.integers(4, 17))
    buses = [*range(n_buses), *rng.integers(0, n_buses, n_supplies - n_buses).tolist()]
    return buses, [*range(n_buses), *rng.integers(0, n_buses, n_gpus - n_buses).tolist()]


def test_of_twenty_random_wirings_in_step_nineteen_are_found_by_moving_each_gpu_and_wrong_links_are_not_sure() -> None:
    right = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        buses, gpus = _random_wiring(rng)
        learnt = _learnt(rng, buses, gpus, range(len(gpus)))
        if _links(learnt) == _canonical([*buses, *gpus]):
            right += 1
        else:
            assert not all(link.is_sure for link in (*learnt.supplies, *learnt.gpus))
    assert right >= 19


@pytest.mark.parametrize("seed", range(3))
def test_a_gpu_that_was_not_moved_stays_not_sure_while_the_others_are(seed: int) -> None:
    learnt = _learnt(np.random.default_rng(seed), [0, 0, 1], [0, 0, 1, 1], [0, 1, 2])
    assert [link.is_sure for link in learnt.gpus] == [True, True, True, False]
    assert [link.bus for link in learnt.supplies] == [0, 0, 1]


@pytest.mark.parametrize("seed", range(3))
def test_supplies_that_follow_no_moved_gpu_are_apart_from_the_others(seed: int) -> None:
    buses, gpus = [0, 0, 1, 1, 2, 2], [0] * 4 + [1] * 4
    learnt = _learnt(np.random.default_rng(seed), buses, gpus, range(8))
    assert _links(learnt) == _canonical([*buses, *gpus])
    assert all(link.is_sure for link in (*learnt.supplies, *learnt.gpus))


def test_a_supply_is_not_apart_while_the_gpus_that_it_may_feed_were_not_moved() -> None:
    learnt = _learnt(np.random.default_rng(2), [0, 0, 1], [0, 0, 1, 1], [0, 1])
    assert not learnt.gpus[2].is_sure
    assert not learnt.gpus[3].is_sure


def test_an_experiment_counts_where_there_are_too_few_load_steps() -> None:
    rng = np.random.default_rng(4)
    responses = [one for gpu in range(4) if (one := _moved(rng, [0, 1], [0, 0, 1, 1], gpu)) is not None]
    loads = _loads(rng, 4, 5.0)
    learnt = learn_wiring(
        _shown(rng, loads, [0, 1], [0, 0, 1, 1]), _read(rng, loads), step_s=STEP_S, responses=responses
    )
    assert learnt is not None
    assert _links(learnt) == (0, 1, 0, 0, 1, 1)
    assert learnt.n_experiments == 4
