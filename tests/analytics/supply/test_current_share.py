"""Share of a bus block by block: what noise, loads and joints make of the test, against ideal sources."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.connectivity import GroupArray
from analytics.detectors.supply_limits import CurrentShareLimits
from analytics.supply.current_share import BusBlock, ShareTest, take_block
from analytics.supply.share_block import ShareMeans
from analytics.supply.usual_share import LEARN_BLOCKS, UsualShare
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, filled

LIMITS = CurrentShareLimits()
BLOCK_NS = 2 * NS_PER_S
DAY_BLOCKS = 43_200
# What healthy blocks of simulated meters scatter by at most: a share by 0.8 %, a voltage by 3 mV of 54 V.
NOISE_SHARE, NOISE_V = 0.008, 0.003


@dataclass
class Watch:
    """Buses that are judged block by block, and which supplies were ever found."""

    groups: GroupArray

    def __post_init__(self) -> None:
        n = len(self.groups)
        self.usual, self.test = filled(UsualShare, n), filled(ShareTest, n)
        self.now_ns = 1_700_000_000 * NS_PER_S
        self.ever: MaskArray = np.zeros(n, dtype=np.bool_)

    def take(self, current_a: FloatArray, voltage_v: FloatArray, swing_a: FloatArray | float = 0.0) -> MaskArray:
        means = ShareMeans(
            current_a=current_a,
            voltage_v=voltage_v,
            swing_a=swing_a + np.zeros(len(self.groups)),
            step_a=np.full(len(self.groups), 0.1),
        )
        self.now_ns += BLOCK_NS
        block = BusBlock.of(means, self.groups)
        self.usual, self.test = take_block(
            self.usual, self.test, block, self.now_ns, active=np.zeros_like(self.ever), groups=self.groups
        )
        step_v = np.full(len(self.groups), 2.0**-7)
        hangs = np.zeros(len(self.groups), dtype=np.bool_)
        found = self.test.fallen(
            self.usual, self.groups, self.now_ns, step_v=step_v, hangs=hangs, low_ratio=LIMITS.low_ratio
        )
        self.ever = self.ever | found
        return found


def buses(*sizes: int) -> GroupArray:
    return np.repeat(np.arange(len(sizes)), sizes)


def shown(rng: np.random.Generator, current_a: FloatArray, voltage_v: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (
        current_a * (1.0 + rng.normal(0.0, NOISE_SHARE, current_a.shape)),
        voltage_v + rng.normal(0.0, NOISE_V, voltage_v.shape),
    )


@pytest.mark.parametrize("blocks", [DAY_BLOCKS // 4, pytest.param(DAY_BLOCKS, marks=pytest.mark.soak)])
def test_healthy_noise_is_silent_for_hours_on_every_size_of_bus(blocks: int) -> None:
    rng, watch = np.random.default_rng(1), Watch(buses(2, 2, 3, 3, 4, 6, 6, 8))
    gain_a, gain_v = rng.uniform(0.98, 1.02, len(watch.groups)), rng.uniform(0.995, 1.005, len(watch.groups))
    load_a = 40.0 * (1.0 + 0.05 * np.sin(np.arange(blocks) / 700.0))
    for level_a in load_a:
        watch.take(*shown(rng, level_a * gain_a, 54.0 * gain_v))
    assert not watch.ever.any()
    assert watch.usual.known.all()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 8),
    spread_v=st.floats(0.0, 0.1),
    loads_a=st.lists(st.floats(5.0, 90.0), min_size=2, max_size=12),
)
def test_no_sequence_of_loads_is_a_joint(seed: int, size: int, spread_v: float, loads_a: list[float]) -> None:
    rng, watch = np.random.default_rng(seed), Watch(buses(size))
    open_v = 54.0 + rng.uniform(-spread_v, spread_v, size)
    droop_ohm, joint_ohm = rng.uniform(0.006, 0.010, size), rng.uniform(0.006, 0.010, size)
    for level_a in np.repeat(loads_a, 40):
        watch.take(*shown(rng, *solved(level_a * size, open_v, droop_ohm, joint_ohm)))
    assert not watch.ever.any()


@pytest.mark.parametrize("size", [2, 3, 4, 6])
@pytest.mark.parametrize("shared", [False, True])
def test_meters_that_drift_within_minutes_while_jobs_change_are_no_joint(size: int, *, shared: bool) -> None:
    found = {seed for seed in range(10) if drifted(seed, size, shared=shared).any()}
    assert found == set()


@pytest.mark.parametrize(("rise", "found"), [(0.002, False), (0.008, True)])
def test_a_voltage_that_rises_with_a_share_that_falls_shows_a_joint_beyond_what_meters_drift(
    rise: float, *, found: bool
) -> None:
    rng, watch = np.random.default_rng(1), Watch(buses(6))
    for block in range(200):
        grown = np.where(np.arange(6) == 0, np.clip((block - 100) / 60.0, 0.0, 1.0), 0.0)
        watch.take(*shown(rng, 20.0 * (1.0 - 0.15 * grown), 54.0 * (1.0 + rise * grown)))
    assert bool(watch.ever[0]) is found


@pytest.mark.parametrize("size", [2, 3, 6])
def test_a_set_point_that_wanders_by_hundredths_of_a_per_cent_is_no_joint_of_a_stiff_supply(size: int) -> None:
    """It moves the share by a tenth, and the voltage of the own output by less than its meter drifts."""
    rng, watch = np.random.default_rng(2), Watch(buses(size))
    droop_ohm, joint_ohm = np.full(size, 0.0008), np.full(size, 0.0006)
    for block in range(600):
        wander_v = 54.0 * 1e-4 * np.sin(block / 60.0 + np.arange(size))
        drift = 1e-3 * np.sin(block / 40.0 + 2.0 * np.arange(size))
        current_a, own_v = solved(40.0 * size, 54.0 + wander_v, droop_ohm, joint_ohm)
        watch.take(*shown(rng, current_a, own_v * (1.0 + drift)), swing_a=0.2 * 40.0)
    assert not watch.ever.any()


def drifted(seed: int, size: int, *, shared: bool) -> MaskArray:
    """Return which supplies are ever found in twelve minutes of jobs, with meters that drift by half a thousandth.

    The set points lie up to 50 mV apart, so that the shares differ; where they are `shared`, a loop makes them alike.
    """
    rng, watch = np.random.default_rng(seed), Watch(buses(size))
    droop_ohm, joint_ohm = np.full(size, 0.006), rng.uniform(0.009, 0.011, size)
    open_v = 54.0 + rng.uniform(-0.025, 0.025, size)
    levels_a = np.repeat(rng.uniform(10.0, 25.0, 6), 60)
    drift = 5e-4 * np.sin(np.arange(360)[:, np.newaxis] / rng.uniform(25, 70, size) + rng.uniform(0.0, 7.0, size))
    for level_a, off in zip(levels_a * rng.uniform(0.97, 1.03, 360), drift, strict=True):
        current_a, own_v = solved(level_a * size, open_v, droop_ohm, joint_ohm)
        if shared:
            current_a = np.full(size, level_a)
            own_v = 54.0 + current_a * joint_ohm
        watch.take(*shown(rng, current_a * (1.0 - 2.0 * off[::-1]), own_v * (1.0 + off)))
    return watch.ever


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 8), times=st.floats(1.5, 5.0), level_a=st.floats(20.0, 60.0))
def test_a_joint_half_as_much_again_is_found_within_ten_minutes_and_no_sibling(
    seed: int, size: int, times: float, level_a: float
) -> None:
    """The load of a job steps by a fifth, which the supplies share by their conductances."""
    rng, watch = np.random.default_rng(seed), Watch(buses(size))
    open_v = 54.0 + rng.uniform(-0.03, 0.03, size)
    droop_ohm, joint_ohm = np.full(size, 0.008), np.full(size, 0.009)
    for block in range(60 + 300):
        worn = np.where((np.arange(size) == 0) & (block >= 60), times, 1.0)
        load_a = level_a * size * rng.uniform(0.9, 1.1)
        siemens = 1.0 / (droop_ohm + joint_ohm * worn)
        swing_a = 0.2 * load_a * siemens / siemens.sum() * (1.0 + rng.normal(0.0, NOISE_SHARE, size))
        watch.take(*shown(rng, *solved(load_a, open_v, droop_ohm, joint_ohm * worn)), swing_a=swing_a)
        assert block >= 60 or not watch.ever.any()
    assert watch.ever.tolist() == [True] + [False] * (size - 1)


def solved(
    load_a: float, open_v: FloatArray, droop_ohm: FloatArray, joint_ohm: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return currents and voltages at the own outputs of sources in parallel."""
    siemens = 1.0 / (droop_ohm + joint_ohm)
    bus_v = ((siemens * open_v).sum() - load_a) / siemens.sum()
    current_a = siemens * (open_v - bus_v)
    return current_a, bus_v + current_a * joint_ohm


def test_a_share_is_of_those_that_carry() -> None:
    groups = buses(3, 1)
    means = ShareMeans(
        current_a=np.array([30.0, 10.0, 0.1, 50.0]),
        voltage_v=np.array([54.0, 54.54, 54.2, 54.0]),
        swing_a=np.full(4, 5.0),
        step_a=np.full(4, 0.1),
    )
    block = BusBlock.of(means, groups)
    assert block.ready.tolist() == [True, True, False, False]
    assert block.carriers.tolist() == [2.0, 2.0, 2.0, 1.0]
    np.testing.assert_allclose(block.share[:2], np.log([1.5, 0.5]))
    np.testing.assert_allclose(block.volts[:2], [-np.log(1.01), np.log(1.01)])
    assert np.isnan(block.share[2:]).all()


def test_rails_of_another_voltage_are_no_siblings() -> None:
    means = ShareMeans(
        current_a=np.full(3, 30.0),
        voltage_v=np.array([54.0, 54.1, 12.0]),
        swing_a=np.full(3, 5.0),
        step_a=np.full(3, 0.1),
    )
    assert not BusBlock.of(means, buses(3)).ready.any()


@pytest.mark.parametrize(("fallen", "found"), [((0, 1), True), ((0, 1, 2), False)])
def test_half_of_a_bus_that_falls_together_is_another_bus(*, fallen: tuple[int, ...], found: bool) -> None:
    """Two buses that were taken for one, between which the load moved."""
    rng, watch = np.random.default_rng(3), Watch(buses(6))
    for block in range(60):
        current_a, voltage_v = np.full(6, 40.0), np.full(6, 54.0)
        if block >= 2 * LEARN_BLOCKS:
            current_a[[*fallen]], voltage_v[[*fallen]] = 25.0, 54.3
        watch.take(*shown(rng, current_a, voltage_v))
    assert watch.ever[0] == found
    assert not watch.ever[3:].any()


def test_a_joint_that_gets_loose_is_shown_by_a_small_rise_in_the_same_block() -> None:
    """No meter drifts by a thousandth within a block of two seconds."""
    rng, watch = np.random.default_rng(1), Watch(buses(6))
    for block in range(120):
        loose = np.where(np.arange(6) == 0, float(block >= 100), 0.0)
        watch.take(*shown(rng, 20.0 * (1.0 - 0.25 * loose), 54.0 * (1.0 + 1e-3 * loose)))
    assert watch.ever.tolist() == [True, *[False] * 5]
