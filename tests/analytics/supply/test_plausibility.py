import numpy as np
import pytest

from analytics.supply.plausibility import Stillness, rounding_ratio
from telemetry.frames import FloatArray, filled

SEEN = np.array([[True]])
ALONE = np.full(1, np.nan)


def after(blocks: FloatArray, state: Stillness | None = None) -> Stillness:
    """Take in blocks of voltage and current, shape ``(n_blocks, n_rows, 2)``."""
    state = state or filled(Stillness, 1)
    for block in blocks:
        state = state.after_rows(block[:, np.newaxis], np.ones((len(block), 1, 1), dtype=np.bool_))
        state = state.after_block(block.std(axis=0)[np.newaxis], ALONE, SEEN)
    return state


def noisy(n_blocks: int, *, step_v: float, noise_v: float, noise_a: float = 0.02) -> FloatArray:
    rng = np.random.default_rng(3)
    volts = np.round(rng.normal(230.0, noise_v, (n_blocks, 32)) / step_v) * step_v
    return np.stack((volts, rng.normal(5.0, noise_a, (n_blocks, 32))), axis=2)


def test_a_noisy_meter_that_becomes_constant_is_broken() -> None:
    state = after(noisy(9, step_v=0.01, noise_v=0.03))
    assert state.broken(np.array([[0.0, 0.02]]), ALONE)[0].tolist() == [True, False]
    assert not state.broken(np.array([[0.01, 0.02]]), ALONE).any()


def test_a_partner_that_moves_less_than_ever_states_nothing() -> None:
    assert not after(noisy(9, step_v=0.01, noise_v=0.03)).broken(np.array([[0.0, 0.005]]), ALONE).any()


def test_a_coarse_sensor_that_toggles_between_two_steps_is_never_called_broken() -> None:
    assert not after(noisy(40, step_v=0.1, noise_v=0.03)).broken(np.array([[0.0, 0.02]]), ALONE).any()


def test_few_blocks_are_too_few_and_a_value_that_has_stood_still_before_begins_again() -> None:
    blocks = noisy(9, step_v=0.01, noise_v=0.03)
    still = np.array([[0.0, 0.02]])
    assert not after(blocks[:7]).broken(still, ALONE).any()
    state = after(blocks).after_block(still, ALONE, SEEN)
    assert state.broken(still, ALONE)[0, 0]
    assert not after(blocks[:1], state).broken(still, ALONE).any()


def test_half_a_step_of_a_coarse_current_is_much_of_a_small_power_and_little_of_a_large_one() -> None:
    volts, amps, steps = np.full(2, 12.0), np.array([4.0, 80.0]), np.array([[0.002, 0.5], [0.002, 0.5]])
    assert rounding_ratio(volts, amps, steps) == pytest.approx([0.0626, 0.0032], rel=1e-2)


def test_a_meter_that_never_changed_and_a_supply_without_current_show_no_rounding() -> None:
    steps = np.array([[np.inf, np.inf], [0.01, 0.5]])
    assert rounding_ratio(np.full(2, 12.0), np.array([4.0, 0.0]), steps).tolist() == [0.0, 0.0]


def stepping(n_blocks: int, *, swing: float) -> FloatArray:
    """Return a voltage in steps of 20 mV that a load moves by `swing` steps, with its current."""
    rng = np.random.default_rng(5)
    high = rng.random((n_blocks, 40)) < 0.5
    amps = np.where(high, 40.0, 10.0) + rng.normal(0.0, 0.1, high.shape)
    volts = 12.003 - 0.02 * swing * high + rng.normal(0.0, 0.004, high.shape)
    return np.stack((np.round(volts / 0.02) * 0.02, amps), axis=2)


@pytest.mark.parametrize(("swing", "broken"), [(2.0, True), (1.6, True), (0.7, False), (0.3, False)])
def test_a_value_that_moves_by_more_than_a_step_cannot_become_constant_at_the_same_load(
    swing: float, *, broken: bool
) -> None:
    assert after(stepping(12, swing=swing)).broken(np.array([[0.0, 15.0]]), ALONE)[0, 0] == broken


def test_three_levels_that_are_seen_now_and_then_show_no_swing() -> None:
    blocks = stepping(40, swing=0.7)
    blocks[::3, :, 0] = stepping(14, swing=2.0)[:, :, 0]
    assert not after(blocks).broken(np.array([[0.0, 15.0]]), ALONE).any()
