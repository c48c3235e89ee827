"""What GPUs of one node may differ by for good, by the order in which air passes them."""

import numpy as np
import pytest

from analytics.heat.airflow_order import ORDERS, OrderCheck, check_order
from telemetry.frames import FloatArray

N_NODES = 200
H100 = np.isin(np.arange(8), (0, 3, 4, 7))


def checked(theta: FloatArray) -> OrderCheck:
    groups = np.repeat(np.arange(theta.size // theta.shape[-1]), theta.shape[-1])
    return check_order(theta.ravel(), groups, reference=np.ones(theta.size, dtype=np.bool_))


def nodes(behind: float, order: tuple[int, ...], seed: int = 0, own: float = 0.06) -> FloatArray:
    """Return resistances of many nodes: those of an order are hotter by a share, each GPU differs by its own."""
    chance = np.random.default_rng(seed)
    spread = np.exp(own * chance.standard_normal((N_NODES, 8)))
    theta: FloatArray = np.where(np.isin(np.arange(8), order), 1.0 + behind, 1.0) * spread
    return theta


# The public table of eight A100 under load: degrees and watts, in air of about 25 degrees.
A100_C = np.array([75.0, 63.0, 67.0, 73.0, 71.0, 65.0, 68.0, 78.0])
A100_W = np.array([409.0, 410.0, 382.0, 400.0, 341.0, 350.0, 391.0, 413.0])


def test_eight_a100_of_which_four_are_nine_kelvin_hotter_are_within_their_range() -> None:
    found = checked(((A100_C - 25.0) / A100_W)[np.newaxis])
    assert not found.beyond.any()
    for place in range(8):
        worse = (A100_C - 25.0) / A100_W * np.where(np.arange(8) == place, 1.6, 1.0)
        assert checked(worse[np.newaxis]).beyond.tolist() == (np.arange(8) == place).tolist()


@pytest.mark.parametrize("order", [(), (0, 3, 4, 7), (2, 3, 6, 7), (1, 2, 5, 6), (4, 5, 6, 7), (0,), (2, 7)])
@pytest.mark.parametrize("behind", [0.1, 0.2])
def test_a_healthy_chassis_of_any_order_is_within_its_range(order: tuple[int, ...], behind: float) -> None:
    assert checked(nodes(behind, order, own=0.05)).beyond.mean() < 0.002


@pytest.mark.parametrize("order", [(), *ORDERS[8]])
@pytest.mark.parametrize("place", [0, 2])
def test_one_gpu_two_thirds_worse_is_beyond_the_range_of_its_own_air(order: tuple[int, ...], place: int) -> None:
    theta = nodes(0.25, order, own=0.04)
    theta[:, place] *= 1.67
    beyond = checked(theta).beyond.reshape(theta.shape)
    assert beyond[:, place].mean() > 0.9
    assert np.delete(beyond, place, axis=1).mean() < 0.01


def test_in_a_chassis_that_is_not_known_one_that_exceeds_all_others_is_found() -> None:
    theta = nodes(0.25, (4, 5, 6, 7), own=0.04)
    theta[:, 1] *= 2.1
    assert checked(theta).beyond.reshape(theta.shape)[:, 1].mean() > 0.95


def test_one_that_is_back_is_as_the_others_of_its_air() -> None:
    found = checked(np.where(H100, 1.25, 1.0)[np.newaxis])
    assert found.back.all()


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_than_two_others_show_no_range(size: int) -> None:
    found = checked(np.full((1, size), 0.1))
    assert np.isnan(found.more).all()
    assert not found.beyond.any()
    assert not found.back.any()


def test_gpus_that_do_not_work_have_no_part_in_it() -> None:
    theta = np.where(np.arange(8) < 5, 0.1, np.nan)
    theta[2] = 0.16
    assert checked(theta[np.newaxis]).beyond.tolist() == (np.arange(8) == 2).tolist()
