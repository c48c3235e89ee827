"""A board's power curve begins as its part's and follows the steps of the clock that were seen."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.board_curve import RATIOS, BoardCurve, CurveShape, board_curve, is_valid
from physics.board_parts import curve_of, part_of
from physics.power_curve import DEFAULT_CURVE, HeightCurve, PowerCurve
from physics.supply_path import GpuLoad, SupplyLoad, SupplyPath, worst_dip_v

A100 = "NVIDIA A100-SXM4-80GB"
V100 = "Tesla V100-SXM2-16GB"
IDLE_W, LEVEL_W = 60.0, 400.0
# Curves as far from the table's as two of its standard deviations.
curves = st.builds(
    PowerCurve,
    idle=st.just(0.12),
    static=st.floats(0.2, 0.45),
    voltage_floor=st.floats(0.55, 0.85),
    knee=st.floats(0.40, 0.75),
)

# Curves about one standard deviation from the table's. Beyond, a sharp knee between two clocks that were seen is off by
# up to 8 %.
likely_curves = st.builds(
    PowerCurve,
    idle=st.just(0.12),
    static=st.floats(0.2, 0.45),
    voltage_floor=st.floats(0.65, 0.85),
    knee=st.floats(0.40, 0.72),
)


def a100() -> BoardCurve:
    curve = curve_of(A100)
    assert curve is not None
    return curve


def above_idle(curve: PowerCurve, ratio: float) -> float:
    return (curve.share(ratio) - curve.idle) / (1.0 - curve.idle)


def power_w(curve: PowerCurve, ratio: float) -> float:
    return IDLE_W + LEVEL_W * above_idle(curve, ratio)


def stepped(board: BoardCurve, truth: PowerCurve, ratios: tuple[float, ...], *, sd: float = 0.003) -> BoardCurve:
    for low, high in pairwise(ratios):
        board = board.with_step(low, high, math.log(above_idle(truth, high) / above_idle(truth, low)), sd)
    return board


def test_before_any_step_a_v100_is_capped_by_the_curve_of_its_record_and_no_other() -> None:
    board = curve_of(V100)
    assert board is not None
    assert board.cautious(350.0, 1.0) is DEFAULT_CURVE
    assert board.predict(350.0, 1.0, 1005 / 1530).power_w == pytest.approx(205.0, rel=0.02)


def test_a_board_without_a_name_has_no_curve_and_one_of_an_unknown_part_a_wide_one() -> None:
    assert curve_of(None) is None
    assert curve_of("") is None
    unknown, known = curve_of("Some Accelerator"), curve_of(V100)
    assert unknown is not None
    assert known is not None
    assert unknown.step_sd(1.0, 0.7) > 1.2 * known.step_sd(1.0, 0.7)


def test_a_step_at_two_clocks_narrows_the_bounds_between_them_and_far_less_beyond() -> None:
    before = a100()
    after = stepped(before, DEFAULT_CURVE, (1.0, 0.8))
    assert after.step_sd(1.0, 0.8) < 0.15 * before.step_sd(1.0, 0.8)
    assert after.step_sd(1.0, 0.9) < 0.3 * before.step_sd(1.0, 0.9)
    assert after.step_sd(0.8, 0.5) > 0.3 * before.step_sd(0.8, 0.5)


@given(truth=likely_curves, unseen=st.floats(0.62, 1.0))
def test_between_clocks_that_were_seen_the_error_is_below_five_per_cent(truth: PowerCurve, unseen: float) -> None:
    board = stepped(a100(), truth, (1.0, 0.85, 0.7, 0.6, 0.75, 0.95))
    found = board.predict(power_w(truth, 0.8), 0.8, unseen)
    assert found.power_w == pytest.approx(power_w(truth, unseen), rel=0.05)


@given(truth=curves, ratio=st.sampled_from(RATIOS))
def test_the_bounds_of_the_table_hold_what_the_table_calls_possible(truth: PowerCurve, ratio: float) -> None:
    found = a100().predict(power_w(truth, 1.0), 1.0, ratio)
    # Two deviations of each of three parameters at once lie a little outside of bounds of 1.6.
    assert 0.75 * found.low_w < power_w(truth, ratio) < 1.25 * found.high_w


@given(
    idle_w=st.floats(21.0, 99.0),  # what the table's 60 W with 24 W of deviation call possible
    level_w=st.floats(15.0, 400.0),
    at=st.floats(0.2, 1.0),
    to=st.floats(0.2, 1.0),
)
def test_until_the_board_was_seen_idle_the_bounds_hold_every_idle_power_that_the_table_calls_possible(
    idle_w: float, level_w: float, at: float, to: float
) -> None:
    board = a100()
    true_w, drawn_w = (idle_w + level_w * board.height(ratio) for ratio in (to, at))
    if idle_w < 0.9 * drawn_w:
        found = board.predict(drawn_w, at, to)
        assert found.low_w - 1e-9 <= true_w <= found.high_w + 1e-9


def test_idle_power_that_was_seen_narrows_the_bounds_of_a_small_load() -> None:
    before = a100()
    after = before.with_idle(60.0, 3.0, load_w=None, load_ratio=None)
    widths = [found.high_w - found.low_w for found in (one.predict(90.0, 1.0, 0.5) for one in (before, after))]
    assert widths[1] < 0.5 * widths[0]
    full = [found.high_w - found.low_w for found in (one.predict(400.0, 1.0, 0.5) for one in (before, after))]
    assert full[1] > 0.85 * full[0], "at board power the shape is what is uncertain"


@given(truth=likely_curves, at=st.sampled_from(RATIOS), drawn_w=st.floats(70.0, 500.0), steps=st.integers(0, 1))
def test_the_curve_of_a_cap_is_the_upper_bound_of_the_prediction_or_above_it(
    truth: PowerCurve, at: float, drawn_w: float, steps: int
) -> None:
    board = a100()
    if steps:
        slope = 1.0 / LEVEL_W - 1.0 / (LEVEL_W * above_idle(truth, 0.8))
        change = math.log(above_idle(truth, 0.8))
        board = board.with_step(1.0, 0.8, change, 0.003, ln_change_per_idle_w=slope)
    curve = board.upper_curve(drawn_w, at)
    full_w = drawn_w / curve.share(at)
    # Power rises with the clock: a bound at one clock is one at each clock below it.
    least_w = drawn_w
    for ratio in reversed([one for one in RATIOS if one < at]):
        least_w = min(least_w, board.predict(drawn_w, at, ratio).high_w)
        assert full_w * curve.share(ratio) >= least_w * (1.0 - 1e-9)
    for ratio in (one for one in RATIOS if one > at):
        assert full_w * curve.share(ratio) >= board.predict(drawn_w, at, ratio).high_w * (1.0 - 1e-9)


@given(truth=likely_curves, idle_w=st.floats(25.0, 95.0))
def test_a_wrong_idle_power_cancels_at_the_clocks_and_the_load_of_the_step(truth: PowerCurve, idle_w: float) -> None:
    """Seen above the assumed 60 W, and above the true one."""
    at_w = {ratio: idle_w + LEVEL_W * above_idle(truth, ratio) for ratio in (1.0, 0.8)}
    from_w, to_w = at_w[1.0] - IDLE_W, at_w[0.8] - IDLE_W
    slope = 1.0 / from_w - 1.0 / to_w
    board = a100()
    for _ in range(8):
        board = board.with_step(1.0, 0.8, math.log(to_w / from_w), 0.003, ln_change_per_idle_w=slope)
        board = board.with_step(0.8, 1.0, -math.log(to_w / from_w), 0.003, ln_change_per_idle_w=-slope)
    found = board.predict(at_w[1.0], 1.0, 0.8)
    assert found.power_w == pytest.approx(at_w[0.8], rel=0.01)
    assert found.high_w - found.low_w < 0.04 * found.power_w
    moved = board.with_idle(idle_w, 3.0, load_w=at_w[1.0], load_ratio=1.0)
    assert moved.predict(at_w[1.0], 1.0, 0.8).power_w == pytest.approx(at_w[0.8], rel=0.01)
    assert moved.height(0.8) == pytest.approx(above_idle(truth, 0.8), rel=0.03)


def test_one_step_in_which_the_load_changed_as_well_moves_the_curve_by_little() -> None:
    truth = DEFAULT_CURVE
    good = stepped(a100(), truth, (1.0, 0.8, 1.0, 0.8, 1.0))
    bad = good.with_step(1.0, 0.8, math.log(0.5 * above_idle(truth, 0.8)), 0.003)
    assert bad.predict(400.0, 1.0, 0.8).power_w == pytest.approx(good.predict(400.0, 1.0, 0.8).power_w, rel=0.01)


@given(
    truth=curves,
    steps=st.lists(st.tuples(st.floats(0.2, 1.0), st.floats(0.2, 1.0), st.floats(-1.0, 1.0)), max_size=12),
    at=st.floats(0.2, 1.0),
    drawn_w=st.floats(5.0, 1000.0),
)
def test_whatever_was_learnt_the_curve_of_a_cap_rises_with_the_clock_and_holds_the_bounds(
    truth: PowerCurve, steps: list[tuple[float, float, float]], at: float, drawn_w: float
) -> None:
    board = stepped(a100(), truth, (1.0, 0.8))
    for low, high, change in steps:
        board = board.with_step(low, high, change, 0.01)
    assert is_valid(board.mean.tolist(), board.covariance.tolist())
    curve = board.cautious(drawn_w, at)
    assert isinstance(curve, HeightCurve)
    assert np.all(np.diff(curve.heights) >= -1e-12)
    assert np.all(np.diff(board.mean) >= 0.0)
    assert curve.heights[-1] == 1.0
    assert 0.0 <= curve.idle < 1.0
    full_w = drawn_w / curve.share(at)
    for ratio in RATIOS:
        if abs(ratio - at) > 0.05:  # between the points beside it a line is a little above the curve
            assert full_w * curve.share(ratio) >= 0.97 * board.predict(drawn_w, at, ratio).power_w


@given(curve=curves, ratio=st.floats(0.2, 1.0), load=st.floats(0.01, 1.0))
def test_points_of_a_curve_are_the_curve(curve: PowerCurve, ratio: float, load: float) -> None:
    points = HeightCurve(ratios=RATIOS, idle=curve.idle, heights=tuple(above_idle(curve, one) for one in RATIOS))
    assert points.share(ratio, load) == pytest.approx(curve.share(ratio, load), rel=0.03)
    assert points.load_of(points.share(ratio, load), ratio) == pytest.approx(load)


def test_below_its_lowest_clock_a_curve_by_points_stays_level() -> None:
    points = HeightCurve(ratios=(0.5, 1.0), idle=0.1, heights=(0.4, 1.0))
    assert points.share(0.1) == points.share(0.5) == pytest.approx(0.46)
    assert points.share(2.0) == 1.0
    assert HeightCurve(ratios=(0.5, 1.0), idle=1.0, heights=(0.0, 0.0)).load_of(1.0, 1.0) == 0.0


@given(truth=curves)
def test_the_dip_never_gets_shallower_as_the_clock_rises_on_a_learnt_curve(truth: PowerCurve) -> None:
    board = stepped(a100(), truth, (1.0, 0.8, 0.65))
    path = SupplyPath(open_circuit_v=54.0, source_resistance_ohm=0.01, transient_ohm=0.002)
    gpu = GpuLoad(
        max_clock_mhz=1410.0,
        clock_mhz=1410.0,
        power_high_w=400.0,
        power_low_w=180.0,
        curve=board.cautious(400.0, 1.0),
    )
    load = SupplyLoad(power_high_w=3600.0, power_low_w=1800.0, share_ratio=1.0, gpus=(gpu,) * 8)
    dips = [worst_dip_v(path, load, 15.0 * step) for step in range(30, 95)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(dips))


@pytest.mark.parametrize(
    ("mean", "covariance"),
    [
        ([0.0] * 3, [[0.0] * 3] * 3),
        ([math.nan] * 17, np.eye(17).tolist()),
        ([0.0] * 17, (-np.eye(17)).tolist()),
        ([0.0] * 17, [[0.0] * 16] * 17),
        ([50.0] * 17, np.eye(17).tolist()),
    ],
)
def test_what_is_no_mean_and_covariance_is_refused(mean: list[float], covariance: list[list[float]]) -> None:
    assert not is_valid(mean, covariance)


def test_a_shape_that_is_certain_leaves_only_what_the_form_leaves_out() -> None:
    board = board_curve(CurveShape(curve=DEFAULT_CURVE, static_sd_ratio=0.0, floor_sd=0.0, knee_sd=0.0), idle_w=IDLE_W)
    assert board.step_sd(1.0, 0.5) == pytest.approx(0.03)
    assert board.step_sd(1.0, 1.0) == 0.0
    assert part_of(A100) is not None
