import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.workload import load_workload
from simulator.fleet.loads import rhythm_of
from simulator.fleet.operating import OperatingPoints, operating_points

PART = load_node("v100x4").gpu
CLOCKS = np.array(PART.clocks.supported_mhz)


def points(name: str = "ddp", *, limit_w: float = 300.0) -> OperatingPoints:
    return operating_points(PART, rhythm_of(load_workload(name)), limit_w=limit_w, n_gpus=4)


def at(mhz: float) -> int:
    return int(np.searchsorted(CLOCKS, mhz))


@pytest.mark.parametrize("name", ["ddp", "ddp-checkpoint", "inference-8b", "hpc", "burn", "idle"])
def test_levels_fill_the_time_and_no_power_is_below_idle(name: str) -> None:
    found = points(name)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert (found.shares >= 0.0).all()
    assert (found.own_w >= PART.power.idle_w - 1e-9).all()
    assert (found.rise_w >= 0.0).all()


@pytest.mark.parametrize("name", ["ddp", "inference-8b", "hpc"])
def test_gpus_side_by_side_take_as_much_as_each_of_them(name: str) -> None:
    found = points(name)
    np.testing.assert_allclose((found.abreast_w * found.shares).sum(axis=1), (found.own_w * found.shares).sum(axis=1))


def test_a_power_limit_bounds_the_mean_and_not_the_peak() -> None:
    found = points(limit_w=200.0)
    mean_w = (found.own_w * found.shares).sum(axis=1)
    assert mean_w[-1] == pytest.approx(189.0, abs=5.0)  # field report: about 200 W on average
    assert found.own_w[-1, 0] > 300.0  # field report: peaks above 300 W


def test_a_clock_cap_bounds_the_peak() -> None:
    found = points()
    capped = at(1005.0)
    assert found.own_w[capped].max() == pytest.approx(205.0, abs=6.0)
    slower = found.steps_per_s[-1] / found.steps_per_s[capped] - 1.0
    assert slower == pytest.approx(0.13, abs=0.02)  # field report: about 13 %


def test_a_lower_clock_never_takes_more_power() -> None:
    found = points()
    assert (np.diff((found.own_w * found.shares).sum(axis=1)) > -1.0).all()  # steps of the job ripple by that
    assert (np.diff(found.start_w) > 0.0).all()


def test_a_job_returns_its_pauses_a_rise_of_their_own() -> None:
    plain, saving = points("ddp"), points("ddp-checkpoint")
    assert plain.deep_rises_per_s[-1] == 0.0
    assert saving.deep_rises_per_s[-1] > 0.0
    assert saving.deep_rise_w[-1] > saving.rise_w[-1]
    assert saving.steps_per_s[-1] < plain.steps_per_s[-1]


def test_an_idle_gpu_rests_at_its_lowest_clock() -> None:
    found = points("idle")
    assert (found.mean_mhz == CLOCKS[0]).all()
    assert (found.rises_per_s == 0.0).all()


@pytest.mark.parametrize(("name", "mean_w"), [("inference-8b", 75.0), ("inference-70b", 125.0)])
def test_serving_takes_what_the_field_report_states(name: str, mean_w: float) -> None:
    found = points(name)
    assert (found.own_w * found.shares).sum(axis=1)[-1] == pytest.approx(mean_w, rel=0.06)
