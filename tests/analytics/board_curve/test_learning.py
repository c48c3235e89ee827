"""Learning of a board's curve: steps of the clock teach it, everything else is kept apart."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.board_curve.learner import BoardLearner
from analytics.board_curve.learning import CLOCKS_MOST, BoardState, listed_clock
from analytics.board_curve.windows import LoadKind
from physics.board_curve import RATIOS
from telemetry.frames import Frame
from telemetry.gpu import REASON_POWER_CAP
from tests.analytics.board_curve.rows import GPUS, IDLE_W, MAX_MHZ, SPEC, Rows, height

CLOCKS = {gpu.key: (210.0, MAX_MHZ) for gpu in GPUS}


def learner() -> BoardLearner:
    return BoardLearner([SPEC], supported_mhz=CLOCKS)


def fed(frames: Iterable[Frame], into: BoardLearner | None = None) -> BoardState:
    into = into or learner()
    for frame in frames:
        into.feed(frame)
    return into.states[GPUS[0].id]


def error_at(state: BoardState, ratio: float, *, level_w: float = 330.0) -> float:
    """Return the relative error of the power predicted at a clock from that at 80 %."""
    found_w = state.curve.predict(IDLE_W + level_w * height(0.8), 0.8, ratio).power_w
    return found_w / (IDLE_W + level_w * height(ratio)) - 1.0


def test_a_steady_load_at_one_clock_teaches_nothing_of_others() -> None:
    state = fed(Rows().load(120.0))
    assert state.curve.steps == 0
    assert state.load_w == pytest.approx(IDLE_W + 330.0, rel=0.03)
    assert state.load_ratio == 1.0
    assert state.seen_s[-1] == pytest.approx(117.0, abs=4.0)


def test_a_board_that_reports_no_power_or_no_clock_teaches_nothing_and_stops_nothing() -> None:
    found, rows = learner(), Rows(noise=0.0)
    fed(rows.idle(6.0, power_w=0.0), found)
    state = fed(rows.load(9.0, level_w=-IDLE_W, pauses=False), found)  # 0 W at full utilisation
    state = fed(rows.load(9.0, ratio=0.0), found)
    assert (state.idle_windows, state.load_w, state.curve.steps) == (0, None, 0)
    assert found.learnt(0)()


def test_steps_of_the_clock_under_one_load_teach_the_curve_at_clocks_between() -> None:
    rows = Rows()
    state = fed(frame for ratio in (1.0, 0.8, 0.95, 0.65) for frame in rows.load(60.0, ratio=ratio))
    assert state.curve.steps == 3
    for unseen in (0.7, 0.75, 0.85, 0.9):
        assert abs(error_at(state, unseen)) < 0.02


def test_loads_that_change_with_every_clock_are_not_the_curve() -> None:
    rows = Rows()
    plan = ((1.0, 330.0), (0.8, 330.0), (1.0, 330.0), (0.8, 150.0), (1.0, 300.0), (0.8, 300.0), (0.7, 120.0))
    state = fed(frame for ratio, level_w in plan for frame in rows.load(40.0, ratio=ratio, level_w=level_w))
    assert abs(error_at(state, 1.0)) < 0.05
    assert abs(error_at(state, 0.9)) < 0.05


def test_a_load_that_changes_at_one_clock_ends_the_segment_and_is_no_step() -> None:
    rows = Rows()
    plan = ((1.0, 330.0), (1.0, 200.0), (1.0, 330.0))
    state = fed(frame for ratio, level_w in plan for frame in rows.load(30.0, ratio=ratio, level_w=level_w))
    assert state.curve.steps == 0
    assert state.segment is not None
    assert state.segment.level == pytest.approx(math.log(330.0), abs=0.03)


def test_clocks_far_apart_in_time_are_no_step() -> None:
    rows = Rows()
    frames = [*rows.load(30.0)]
    rows.rest(60.0)
    assert fed([*frames, *rows.load(30.0, ratio=0.8)]).curve.steps == 0


def test_capped_and_memory_bound_rows_are_kept_apart() -> None:
    rows = Rows()
    state = fed(
        [
            *rows.load(60.0, ratio=1.0, reasons=REASON_POWER_CAP),
            *rows.load(60.0, ratio=0.8, reasons=REASON_POWER_CAP),
            *rows.load(60.0, ratio=1.0, memory=0.95, level_w=150.0),
            *rows.load(60.0, ratio=0.8, memory=0.95, level_w=150.0),
        ]
    )
    spent = dict(state.kind_s)
    assert state.curve.steps == 0
    assert spent[LoadKind.COMPUTE] == 0.0
    assert spent[LoadKind.CAPPED] == pytest.approx(120.0, abs=6.0)
    assert spent[LoadKind.MEMORY_BOUND] == pytest.approx(120.0, abs=6.0)
    assert state.memory_bound_w is not None
    assert 150.0 < state.memory_bound_w < 220.0
    assert not any(state.seen_s)


def test_an_idle_board_shows_its_own_idle_power() -> None:
    state = fed(Rows().idle(60.0, power_w=85.0))
    assert state.curve.idle_w == pytest.approx(85.0, rel=0.02)
    assert state.idle_windows > 10
    assert state.curve.steps == 0


def test_power_that_still_falls_after_a_job_is_no_idle_power() -> None:
    rows, found = Rows(), learner()
    fed(rows.load(30.0), found)
    falling = fed([frame for power_w in (150.0, 120.0, 100.0) for frame in rows.idle(3.0, power_w=power_w)], found)
    assert (falling.idle_windows, falling.curve.idle_w) == (0, IDLE_W)
    rests = fed(rows.idle(12.0, power_w=85.0), found)
    assert rests.curve.idle_w == pytest.approx(85.0, rel=0.01)


def test_power_near_idle_is_no_load() -> None:
    state = fed(Rows(noise=0.001).load(30.0, level_w=10.0))
    assert dict(state.kind_s)[LoadKind.COMPUTE] == 0.0
    assert state.load_w is None


def test_a_load_too_near_the_idle_power_is_kept_to_be_shown_and_teaches_nothing() -> None:
    rows = Rows(noise=0.001)
    state = fed(frame for ratio in (1.0, 0.6) for frame in rows.load(30.0, ratio=ratio, level_w=10.0 / height(ratio)))
    assert (state.load_w, state.curve.steps) == (None, 0)
    assert state.other_w == pytest.approx(70.0, rel=0.01)
    assert state.other_ratio == pytest.approx(0.6)


def test_the_idle_power_has_the_bounds_of_the_table_until_the_board_was_seen_idle() -> None:
    rows, found = Rows(), learner()
    before = fed(rows.load(30.0), found)
    assert before.curve.idle_sd_w == 24.0  # 6 % of 400 W
    after = fed(rows.idle(30.0, power_w=80.0), found)
    assert after.curve.idle_sd_w == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("true_idle_w", [30.0, 45.0, 60.0, 90.0])
def test_steps_above_a_wrong_idle_power_predict_their_own_load_and_bound_another(true_idle_w: float) -> None:
    """The table assumes 60 W; the rows are of a board with another idle power, which they never show."""
    rows, shift_w = Rows(noise=0.003), true_idle_w - IDLE_W

    def shifted(ratio: float, level_w: float) -> Iterator[Frame]:
        return rows.load(40.0, ratio=ratio, level_w=level_w + shift_w / height(ratio), pauses=False)

    state = fed(frame for ratio in (1.0, 0.8, 0.9, 0.7, 1.0) for frame in shifted(ratio, 200.0))
    assert state.curve.idle_w == IDLE_W
    for level_w, most in ((200.0, 0.08), (60.0, 0.4)):
        for ratio in (0.7, 0.8, 0.9):
            bounds = state.curve.predict(true_idle_w + level_w, 1.0, ratio)
            true_w = true_idle_w + level_w * height(ratio)
            assert bounds.low_w < true_w < bounds.high_w
            assert (bounds.high_w - bounds.low_w) / true_w < most


def test_an_idle_power_that_is_seen_after_the_steps_keeps_what_they_showed_of_their_load() -> None:
    rows, found = Rows(noise=0.003), learner()
    frames = (
        frame
        for ratio in (1.0, 0.8, 0.9, 0.7, 1.0)
        for frame in rows.load(40.0, ratio=ratio, level_w=200.0 - 25.0 / height(ratio), pauses=False)
    )
    before = fed(frames, found)  # 35 W idle, where the table assumes 60
    after = fed(rows.idle(30.0, power_w=35.0), found)
    assert after.curve.idle_w == pytest.approx(35.0, rel=0.01)
    for ratio in (0.7, 0.8, 0.9):
        assert after.curve.predict(235.0, 1.0, ratio).power_w == pytest.approx(
            before.curve.predict(235.0, 1.0, ratio).power_w, rel=0.01
        )
        # Twice the load was wrong above the assumed idle power, and is right above the one that was seen.
        true_w = 35.0 + 400.0 * height(ratio)
        assert after.curve.predict(435.0, 1.0, ratio).power_w == pytest.approx(true_w, rel=0.02)
    assert abs(before.curve.predict(435.0, 1.0, 0.7).power_w / (35.0 + 400.0 * height(0.7)) - 1.0) > 0.02


def test_a_step_across_seconds_of_idle_is_measured_above_the_idle_power_that_they_showed() -> None:
    rows, found = Rows(noise=0.001), learner()
    lower = [*rows.load(30.0, level_w=60.0 - 30.0, pauses=False)]  # 30 W idle, 60 W above it
    fed([*lower, *rows.idle(9.0, power_w=30.0)], found)
    state = fed(rows.load(30.0, ratio=0.8, level_w=60.0 - 30.0 / height(0.8), pauses=False), found)
    assert state.curve.steps == 1
    assert state.curve.height(0.8) == pytest.approx(height(0.8), rel=0.05)


def test_seconds_count_at_the_clock_of_the_board_within_half_a_step_only() -> None:
    listed = (705.0, 720.0, 735.0, 750.0, 780.0, 1395.0, 1410.0)
    assert listed_clock(listed, 735.0) == 735.0
    assert listed_clock(listed, 742.0) == 735.0
    assert listed_clock(listed, 765.0) is None  # a driver leaves its default out of the list
    assert listed_clock(listed, 690.0) is None
    assert listed_clock(listed, 2000.0) is None
    assert listed_clock((735.0,), 735.0) is None
    assert listed_clock((), 735.0) is None


@given(
    clocks=st.lists(st.integers(1, 400), min_size=2, unique=True).map(lambda ones: tuple(map(float, sorted(ones)))),
    clock=st.floats(0.0, 500.0),
)
def test_a_listed_clock_is_the_nearest_one(clocks: tuple[float, ...], clock: float) -> None:
    found = listed_clock(clocks, clock)
    nearest = min(abs(one - clock) for one in clocks)
    assert found is None or abs(found - clock) == nearest
    assert found is not None or nearest > 0.5


def test_seconds_are_kept_for_as_many_clocks_as_a_driver_lists() -> None:
    unlisted = BoardLearner([SPEC])
    rows, state = Rows(), None
    for step in range(CLOCKS_MOST + 20):
        state = fed(rows.load(6.0, ratio=(1410.0 - step) / MAX_MHZ), unlisted)
    assert state is not None
    assert len(state.clock_s) == CLOCKS_MOST
    assert 1410.0 - CLOCKS_MOST - 19 in state.clock_s


def test_a_board_that_answers_with_gaps_is_learnt_from_what_it_showed() -> None:
    rows, broken = Rows(), []
    for number, frame in enumerate(frame for ratio in (1.0, 0.8) for frame in rows.load(60.0, ratio=ratio)):
        values = frame.values.copy()
        if number % 5 == 0:
            values[:, 0, :] = np.nan
        broken.append(Frame(spec=SPEC, time_ns=frame.time_ns, values=values, fresh=frame.fresh))
    assert fed(broken).curve.steps == 1


def test_without_a_name_or_a_highest_clock_nothing_is_learnt() -> None:
    frames = [*Rows().load(30.0)]
    unnamed = BoardLearner([], supported_mhz=CLOCKS)
    for frame in frames:
        unnamed.feed(frame)
    assert not unnamed.states
    assert not unnamed.curves


def test_where_no_clock_can_be_set_the_table_has_the_highest() -> None:
    table = BoardLearner([SPEC])
    assert fed(Rows().load(30.0), table).max_mhz == 1410.0


def test_the_bounds_after_ten_minutes_hold_the_truth_at_every_clock_of_the_grid() -> None:
    rows = Rows(seed=3)
    plan = (1.0, 0.85, 0.95, 0.7, 0.9, 0.75, 0.8, 0.88, 0.72, 1.0)
    state = fed(frame for ratio in plan for frame in rows.load(60.0, ratio=ratio))
    for ratio in RATIOS[8:]:
        at_w = IDLE_W + 330.0 * height(0.8)
        bounds = state.curve.predict(at_w, 0.8, ratio)
        assert 0.99 * bounds.low_w <= IDLE_W + 330.0 * height(ratio) <= 1.01 * bounds.high_w
