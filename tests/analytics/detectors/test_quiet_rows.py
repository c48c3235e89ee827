"""Rows without evidence, judged as a whole: the state is the one that the rows give one by one."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from analytics.detectors.build import DETECTORS, AnyDetector
from analytics.detectors.condition import Conditions
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.warm_means import WarmMeans, add_row, add_rows
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import Frame, filled
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of

GPUS, ROWS = 4, 60
QUIET = ("power_brake", "hw_slowdown", "thermal_margin", "gpu_lost", "gpu_sensor_lost")
TOPOLOGY = node_of(GPUS, 2)
by_name = pytest.mark.parametrize(
    "detector",
    [one for one in (build(DetectorLimits()) for build in DETECTORS) if one.name in QUIET],
    ids=lambda detector: detector.name,
)


def healthy(seed: int) -> Frame:
    """Make rows without evidence: loads that come and go, temperatures that move, counters that stand still."""
    rng = np.random.default_rng(seed)
    shape = (ROWS, GPUS)
    columns = {
        "power_w": 300.0 + 100.0 * rng.random(shape),
        "sm_clock_mhz": np.full(shape, 1400.0),
        "throttle_reasons": np.full(shape, 0.0),
        "gpu_temp_c": np.round(50.0 + 10.0 * rng.random(shape)),
        "slowdown_temp_c": np.full(shape, 87.0),
        "power_brake_s": np.full(shape, 2.5),
        "gpu_util_ratio": np.where(rng.random(shape) < 0.5, 0.0, 0.9),
        "pci_present": np.ones(shape),
    }
    gaps_ns = rng.integers(10_000_000, 2 * NS_PER_S, ROWS)
    frame = frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(GPUS)), columns)
    return replace(frame, time_ns=START_NS + np.cumsum(gaps_ns))


def one_by_one(detector: AnyDetector, state: Any, frame: Frame) -> Any:
    """Judge each row as if a condition had just been busy, which takes the general way."""
    for row in range(len(frame)):
        state = replace(state, conditions=replace(state.conditions, busy=True))
        state, found = detector.step(state, frame.rows(row, row + 1), TOPOLOGY)
        assert not found
    return state


def assert_same(one: Any, other: Any) -> None:
    """Compare two states to the bit, but for the conditions and what only counts while they are busy."""
    for field in fields(one):
        if field.name == "least_c":
            continue
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, Conditions):
            assert not left.active.any()
            assert not right.active.any()
        elif isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        elif is_dataclass(left) and field.name != "topology":
            assert_same(left, right)
        else:
            assert left == right, field.name


@by_name
@pytest.mark.parametrize("seed", range(5))
def test_quiet_rows_leave_the_state_that_they_leave_one_by_one(detector: AnyDetector, seed: int) -> None:
    frame = healthy(seed)
    begun, _ = detector.step(detector.start(frame.spec), frame.rows(0, 5), TOPOLOGY)
    whole, found = detector.step(begun, frame.rows(5, ROWS), TOPOLOGY)
    assert not found
    assert_same(whole, one_by_one(detector, begun, frame.rows(5, ROWS)))


@pytest.mark.parametrize("gap", [50.0, np.nan])
def test_warm_means_of_many_rows_are_those_of_the_rows_one_by_one(gap: float) -> None:
    frame = healthy(7)
    temps_c, powers_w = frame.signal("gpu_temp_c").copy(), frame.signal("power_w")
    temps_c[20:25, 1] = gap
    cooled = np.zeros(temps_c.shape, dtype=np.bool_)
    cooled[30, 2] = np.isnan(gap)
    one = filled(WarmMeans, GPUS)
    for row, now_ns in enumerate(frame.time_ns.tolist()):
        one = add_row(
            one, now_ns=now_ns, temp_c=temps_c[row], power_w=powers_w[row], cooled=cooled[row], smoothing_s=20.0
        )
    many = filled(WarmMeans, GPUS)
    for start, stop in ((0, 1), (1, 40), (40, ROWS)):
        rows = slice(start, stop)
        many = add_rows(
            many,
            frame.time_ns[rows].tolist(),
            temps_c[rows],
            powers_w[rows],
            cooled=cooled[rows],
            smoothing_s=20.0,
        )
    assert_same(one, many)
