"""Tests of the wiring that is learnt from load steps: random wirings under different loads, and loads in step."""

from collections.abc import Sequence

import numpy as np
import pytest

from analytics.connectivity.wiring_learning import LearntWiring, learn_wiring
from telemetry.frames import FloatArray

STEP_S, SECONDS = 0.1, 100
ROWS = round(SECONDS / STEP_S)


def _loads(rng: np.random.Generator, n_gpus: int, *, in_step: bool = False) -> FloatArray:
    """Return power of GPUs that change their level every few seconds, each at its own times or all together."""
    columns = []
    for _ in range(1 if in_step else n_gpus):
        levels = rng.uniform(80.0, 350.0, ROWS)
        starts = np.cumsum(rng.integers(20, 60, ROWS))
        columns.append(levels[np.searchsorted(starts, np.arange(ROWS), side="right")])
    return np.stack(columns * n_gpus if in_step else columns, axis=1)


def _wired(
    rng: np.random.Generator, loads: FloatArray, buses: Sequence[int], gpus: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Return what sensors show: supplies share their bus unevenly, GPUs average over a second and err by 5 %."""
    shares = rng.uniform(0.8, 1.2, len(buses))
    supply_w = np.empty((ROWS, len(buses)))
    for supply, bus in enumerate(buses):
        share = shares[supply] / sum(one for one, own in zip(shares, buses, strict=True) if own == bus)
        on = [gpu for gpu, own in enumerate(gpus) if own == bus]
        supply_w[:, supply] = 40.0 + share * loads[:, on].sum(axis=1) + rng.normal(0.0, 3.0, ROWS)
    window = np.ones(10) / 10.0
    seen = np.stack([np.convolve(loads[:, gpu], window)[:ROWS] for gpu in range(loads.shape[1])], axis=1)
    return supply_w, seen * rng.normal(1.0, 0.05, loads.shape[1]) + rng.normal(0.0, 2.0, seen.shape)


def _canonical(labels: Sequence[int]) -> tuple[int, ...]:
    names: dict[int, int] = {}
    return tuple(names.setdefault(label, len(names)) for label in labels)


def _links(learnt: LearntWiring) -> tuple[int, ...]:
    return _canonical([link.bus for link in (*learnt.supplies, *learnt.gpus)])


def _random_wiring(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Return the buses of 2 to 6 supplies and of 4 to 16 GPUs on 1 to 3 buses, each with a supply and a GPU."""
    n_buses = int(rng.integers(1, 4))
    n_supplies, n_gpus = int(rng.integers(max(2, n_buses), 7)), int(rng.integers(4, 17))
    buses = [*range(n_buses), *rng.integers(0, n_buses, n_supplies - n_buses).tolist()]
    if n_buses > 1 and rng.random() < 0.3:  # one GPU on another bus
        return buses, [*(min(gpu, n_buses - 1) if gpu < n_buses else 0 for gpu in range(n_gpus))]
    return buses, [*range(n_buses), *rng.integers(0, n_buses, n_gpus - n_buses).tolist()]


def test_of_twenty_random_wirings_nineteen_are_found_and_every_wrong_link_is_not_sure() -> None:
    right = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        buses, gpus = _random_wiring(rng)
        learnt = learn_wiring(*_wired(rng, _loads(rng, len(gpus)), buses, gpus), step_s=STEP_S)
        assert learnt is not None
        if _links(learnt) == _canonical([*buses, *gpus]):
            right += 1
        else:
            assert not all(link.is_sure for link in (*learnt.supplies, *learnt.gpus))
    assert right >= 19


def test_different_loads_on_one_bus_are_surely_one_bus() -> None:
    rng = np.random.default_rng(3)
    learnt = learn_wiring(*_wired(rng, _loads(rng, 4), [0, 0], [0] * 4), step_s=STEP_S)
    assert learnt is not None
    assert {link.bus for link in (*learnt.supplies, *learnt.gpus)} == {0}
    assert all(link.is_sure for link in (*learnt.supplies, *learnt.gpus))


@pytest.mark.parametrize("seed", range(5))
def test_of_gpus_that_move_together_no_link_is_sure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loads = _loads(rng, 8, in_step=True)
    learnt = learn_wiring(*_wired(rng, loads, [0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1]), step_s=STEP_S)
    assert learnt is not None
    assert not any(link.is_sure for link in (*learnt.supplies, *learnt.gpus))


def test_a_gap_in_the_readings_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    supply_w, gpu_w = _wired(rng, _loads(rng, 6), [0, 1], [0, 0, 0, 1, 1, 1])
    supply_w[300:320, 0] = np.nan
    gpu_w[:15, 2] = np.nan
    learnt = learn_wiring(supply_w, gpu_w, step_s=STEP_S)
    assert learnt is not None
    assert _links(learnt) == (0, 1, 0, 0, 0, 1, 1, 1)


def test_too_few_steps_are_no_answer() -> None:
    rng = np.random.default_rng(1)
    supply_w, gpu_w = _wired(rng, _loads(rng, 4), [0, 1], [0, 0, 1, 1])
    assert learn_wiring(supply_w[:700], gpu_w[:700], step_s=STEP_S) is None


def test_more_supplies_than_can_be_divided_in_every_way_are_clustered() -> None:
    rng = np.random.default_rng(2)
    buses, gpus = [0, 1] * 5, [0, 1] * 4
    learnt = learn_wiring(*_wired(rng, _loads(rng, 8), buses, gpus), step_s=STEP_S)
    assert learnt is not None
    assert _links(learnt) == _canonical([*buses, *gpus])
