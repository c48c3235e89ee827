"""Voltages that fell while the current stayed: a meter, and neither the supply nor its feed."""

import numpy as np
import pytest

from analytics.connectivity import GroupArray
from analytics.supply.stream_estimate import BlockMeans
from analytics.supply.voltage_alone import UsualLevels
from telemetry.frames import FloatArray, filled

BUS: GroupArray = np.zeros(3, dtype=np.intp)
VOLTS, AMPS = np.array([54.1, 53.8, 54.0]), np.array([25.0, 20.0, 22.0])


def means(volts: FloatArray, amps: FloatArray) -> BlockMeans:
    samples = np.full(3, 20.0)
    return BlockMeans(seconds=2.0, samples=samples, mean_a=amps, mean_v=volts, spread_a=0.1 * amps, spread_v=0.0 * amps)


def usual() -> UsualLevels:
    levels = filled(UsualLevels, 3)
    for load in (1.0, 0.9, 1.1, 1.0):
        levels = levels.learn(means(VOLTS, load * AMPS), np.zeros(3, dtype=np.bool_), BUS)
    return levels


def first(ratio: float) -> FloatArray:
    return np.array([ratio, 1.0, 1.0])


@pytest.mark.parametrize("load", [1.0, 0.6, 1.4])
def test_a_voltage_that_falls_alone_is_that_of_its_meter_at_any_load(load: float) -> None:
    found = usual().fell_alone(means(first(0.975) * VOLTS, load * AMPS), BUS)
    assert found.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("volts", "amps"),
    [
        (0.975 * np.ones(3), np.ones(3)),
        (first(0.99), np.ones(3)),
        (first(1.025), np.ones(3)),
        (first(0.975), first(0.6)),
        (first(0.975), first(1.0 / 0.975)),
        (np.array([0.975, 0.99, 0.99]), np.ones(3)),
    ],
    ids=["all fall", "little", "a joint", "a set point", "constant power on a bus of its own", "a feed"],
)
def test_what_a_supply_or_a_feed_does_is_no_meter(volts: FloatArray, amps: FloatArray) -> None:
    assert not usual().fell_alone(means(volts * VOLTS, amps * AMPS), BUS).any()


def test_a_meter_that_fell_teaches_nothing() -> None:
    levels, fallen = usual(), means(first(0.975) * VOLTS, AMPS)
    for _ in range(100):
        found = levels.fell_alone(fallen, BUS)
        levels = levels.learn(fallen, found, BUS)
    assert found.tolist() == [True, False, False]


def test_what_the_meters_of_a_supply_that_is_off_show_is_no_gain() -> None:
    levels, rng = usual(), np.random.default_rng(4)
    for _ in range(200):
        off = means(
            np.array([abs(rng.normal(0.03, 0.02)), 53.8, 54.0]), np.array([abs(rng.normal(0.0, 0.02)), 32.0, 34.0])
        )
        found = levels.fell_alone(off, BUS)
        levels = levels.learn(off, found, BUS)
        assert not found.any()
