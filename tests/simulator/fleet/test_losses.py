import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.fleet.losses import Drop, DropCause, GpuLosses

HAZARD = load_node("v100x4").gpu.hazard
EVERYWHERE = np.ones(200, dtype=np.bool_)
ALL = np.ones((200, 4), dtype=np.bool_)


def losses(*, repair_s: float = 7200.0, seed: int = 1) -> GpuLosses:
    return GpuLosses(HAZARD, range(200), (0, 0, 0, 0), repair_s=repair_s, chance=np.random.default_rng(seed))


def test_times_between_drops_are_exponential() -> None:
    found = losses(repair_s=np.inf)
    rate = np.zeros((200, 4))
    rate[:, 0] = 1.0 / 50.0
    drops: list[Drop] = []
    for number in range(600):
        found.begin(number * 1.0, powered=EVERYWHERE, wanted=ALL)
        drops += found.advance(number * 1.0, 1.0, rate)
    times_s = [drop.time_s for drop in drops if drop.cause is DropCause.VOLTAGE]
    assert len(times_s) == 200
    assert np.mean(times_s) == pytest.approx(50.0, rel=0.25)
    assert np.std(times_s) == pytest.approx(50.0, rel=0.3)
    seconds = sum(drop.cause is DropCause.SIBLING for drop in drops)
    assert 20 <= seconds <= 80  # a quarter of them takes a second GPU along


def test_a_cold_start_after_the_repair_brings_gpus_back() -> None:
    found = losses()
    gone = ~ALL
    gone[3, 1] = True
    (drop,) = found.lose(100.0, gone, DropCause.HEAT)
    assert (drop.node, drop.gpu, drop.time_s) == (3, 1, 100.0)
    found.begin(3600.0, powered=EVERYWHERE, wanted=ALL)
    assert not found.present[3, 1]
    found.begin(7300.0, powered=EVERYWHERE, wanted=ALL)
    assert found.present.all()


def test_power_that_returns_is_a_cold_start() -> None:
    found = losses(repair_s=np.inf)
    found.lose(0.0, ALL, DropCause.SCENARIO)
    found.begin(10.0, powered=~EVERYWHERE, wanted=ALL)
    assert not found.present.any()
    found.begin(20.0, powered=EVERYWHERE, wanted=ALL)
    assert found.present.all()


def test_a_gpu_that_a_scenario_takes_is_lost_once() -> None:
    found = losses(repair_s=np.inf)
    wanted = ALL.copy()
    wanted[7, 2] = False
    assert [drop.cause for drop in found.begin(5.0, powered=EVERYWHERE, wanted=wanted)] == [DropCause.SCENARIO]
    assert found.begin(6.0, powered=EVERYWHERE, wanted=wanted) == ()


def test_a_gpu_that_is_gone_cannot_drop_again() -> None:
    found = losses(repair_s=np.inf)
    found.lose(0.0, ALL, DropCause.SCENARIO)
    assert found.advance(0.0, 3600.0, np.full((200, 4), 1e6)) == ()
