"""A joint takes the same part off the steps of a supply's current as off its mean; set points and meters do not."""

from dataclasses import dataclass

import numpy as np
import pytest

from analytics.supply.swing_share import STEPS_FLOOR, SWING_BLOCKS, SwingTest, UsualSwing
from telemetry.frames import FloatArray, filled

LOW_RATIO = 0.93
CALM_SD = 6.0
ALL = np.ones(3, dtype=np.bool_)


@dataclass
class Watch:
    """Three supplies of a bus whose first one changes after some blocks."""

    seed: int = 0
    scatter: float = 0.005
    load_scatter: float = 0.02
    gpus_known: bool = False

    def run(self, *, swing: float, mean: float, others: float, blocks: int = 60) -> SwingTest:
        """Return the test after changes of the logarithms of swing, mean and siblings' current."""
        rng = np.random.default_rng(self.seed)
        usual, test = filled(UsualSwing, 3), filled(SwingTest, 3)
        for block in range(100 + blocks):
            changed = np.where((np.arange(3) == 0) & (block >= 100), 1.0, 0.0)
            value = 0.1 + swing * changed + rng.normal(0.0, self.scatter, 3)
            off = mean * changed + rng.normal(0.0, self.scatter, 3)
            load = np.full(3, np.exp(rng.normal(0.0, self.load_scatter)))
            test = test.after_block(
                usual,
                swing=value,
                count_ratio=np.zeros(3),
                mean_off=off,
                others_a=60.0 * load * np.exp(others * changed + rng.normal(0.0, self.scatter)),
                gpus_w=900.0 * load if self.gpus_known else np.full(3, np.nan),
                bus_share=np.full(3, 0.3),
            )
            usual = usual.taught(test.cusum.below < CALM_SD, value, STEPS_FLOOR).learn(ALL, value)
        self.usual = usual
        return test

    def found(self, test: SwingTest) -> list[bool]:
        fallen = test.fallen(self.usual, low_ratio=LOW_RATIO) & ~test.by_meter
        return [bool(one) for one in fallen]


def taken(fall: float) -> float:
    """Return by how much the siblings' current rises, a logarithm, for a fall of one that carries 0.3 of the bus."""
    return float(np.log1p(0.3 * (np.exp(-fall) - 1.0)))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ratio", [1.15, 1.5, 3.0])
def test_a_resistance_that_rose_is_found_on_its_own_supply(seed: int, ratio: float) -> None:
    watch, fall = Watch(seed), -np.log(ratio)
    assert watch.found(watch.run(swing=fall, mean=fall, others=taken(fall))) == [True, False, False]


@pytest.mark.parametrize("seed", range(10))
def test_a_set_point_that_fell_leaves_the_steps(seed: int) -> None:
    watch = Watch(seed)
    assert not any(watch.found(watch.run(swing=0.0, mean=-0.3, others=taken(-0.3))))


@pytest.mark.parametrize("seed", range(10))
def test_other_steps_of_the_load_leave_the_mean(seed: int) -> None:
    """Supplies whose loops are of unlike speed share fast steps otherwise than slow ones."""
    watch = Watch(seed)
    assert not any(watch.found(watch.run(swing=-0.3, mean=0.0, others=0.0)))


@pytest.mark.parametrize("seed", range(10))
def test_a_current_whose_siblings_took_nothing_over_is_its_meter(seed: int) -> None:
    watch = Watch(seed)
    test = watch.run(swing=-0.3, mean=-0.3, others=0.0)
    assert test.fallen(watch.usual, low_ratio=LOW_RATIO)[0]
    assert test.by_meter[0]


def test_under_a_load_that_varies_too_much_to_show_it_a_joint_is_reported_all_the_same() -> None:
    watch = Watch(load_scatter=0.3)
    assert watch.found(watch.run(swing=-0.3, mean=-0.3, others=taken(-0.3)))[0]


@pytest.mark.parametrize("seed", range(10))
def test_power_of_the_gpus_shows_what_the_siblings_took_over_under_a_load_that_varies(seed: int) -> None:
    watch = Watch(seed, load_scatter=0.3, gpus_known=True)
    assert watch.run(swing=-0.3, mean=-0.3, others=0.0).by_meter[0]
    assert watch.found(watch.run(swing=-0.3, mean=-0.3, others=taken(-0.3)))[0]


@pytest.mark.parametrize("seed", range(5))
def test_healthy_noise_is_silent(seed: int) -> None:
    watch = Watch(seed)
    assert not any(watch.found(watch.run(swing=0.0, mean=0.0, others=0.0, blocks=3000)))


def test_the_level_is_the_median_of_the_first_blocks_and_stays() -> None:
    usual = filled(UsualSwing, 3)
    values: list[FloatArray] = [np.array([0.1, np.nan, 0.3]) * (1 + block) for block in range(SWING_BLOCKS + 5)]
    for value in values:
        usual = usual.learn(ALL, value)
    middle = (SWING_BLOCKS + 1) / 2
    np.testing.assert_allclose(usual.level, [0.1 * middle, np.nan, 0.3 * middle])


@pytest.mark.parametrize("before", [-0.3, 0.3])
def test_a_mean_that_lay_far_off_before_the_steps_fell_is_compared_with_that(before: float) -> None:
    watch, fall = Watch(), -0.4
    usual, test = filled(UsualSwing, 3), filled(SwingTest, 3)
    rng = np.random.default_rng(1)
    for block in range(160):
        changed = np.where((np.arange(3) == 0) & (block >= 100), 1.0, 0.0)
        value = 0.1 + fall * changed + rng.normal(0.0, 0.005, 3)
        test = test.after_block(
            usual,
            swing=value,
            count_ratio=np.zeros(3),
            mean_off=np.array([before, 0.0, 0.0]) + fall * changed,
            others_a=60.0 * np.exp(taken(fall) * changed),
            gpus_w=np.full(3, np.nan),
            bus_share=np.full(3, 0.3),
        )
        usual = usual.taught(test.cusum.below < CALM_SD, value, STEPS_FLOOR).learn(ALL, value)
    watch.usual = usual
    assert watch.found(test) == [True, False, False]
