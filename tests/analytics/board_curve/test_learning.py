"""Learning of a board's curve: steps of the clock teach it, everything else is kept apart."""

import math
from collections.abc import Iterable

import numpy as np
import pytest

from analytics.board_curve.learner import BoardLearner
from analytics.board_curve.learning import BoardState
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


def test_power_near_idle_is_no_load() -> None:
    state = fed(Rows(noise=0.001).load(30.0, level_w=10.0))
    assert dict(state.kind_s)[LoadKind.COMPUTE] == 0.0
    assert state.load_w is None


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
