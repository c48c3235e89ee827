"""Windows of rows: cut at fixed times however the rows come, and sorted by the kind of load."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.board_curve.windows import WINDOW_NS, LoadKind, LoadWindow, WindowCutter
from telemetry.frames import Frame, joined_frames
from telemetry.gpu import REASON_POWER_CAP, REASON_SW_THERMAL
from tests.analytics.board_curve.rows import IDLE_W, MAX_MHZ, SPEC, Rows, height


def windows(frames: Iterable[Frame]) -> list[LoadWindow]:
    cutter = WindowCutter(SPEC)
    return [found[0] for frame in frames for found in cutter.feed(frame) if found[0] is not None]


def test_a_training_load_shows_its_plateau_and_not_its_pauses() -> None:
    found = windows(Rows().load(30.0, ratio=0.8))
    assert len(found) in (8, 9, 10)
    assert {one.kind for one in found} == {LoadKind.COMPUTE}
    assert found[3].clock_mhz == pytest.approx(0.8 * MAX_MHZ)
    assert found[3].power_w == pytest.approx(IDLE_W + 330.0 * height(0.8), rel=0.02)


@pytest.mark.parametrize("reason", [REASON_POWER_CAP, REASON_SW_THERMAL])
def test_a_board_that_its_power_limit_or_heat_holds_down_is_capped(reason: int) -> None:
    assert {one.kind for one in windows(Rows().load(12.0, reasons=reason))} == {LoadKind.CAPPED}


def test_a_load_that_reads_memory_nearly_all_the_time_is_memory_bound() -> None:
    assert {one.kind for one in windows(Rows().load(12.0, memory=0.9))} == {LoadKind.MEMORY_BOUND}


def test_without_utilisation_a_gpu_is_idle_and_its_power_the_median() -> None:
    found = windows(Rows().idle(12.0))
    assert {one.kind for one in found} == {LoadKind.IDLE}
    assert found[1].power_w == pytest.approx(IDLE_W, rel=0.01)


def test_a_window_in_which_the_clock_changes_shows_no_level() -> None:
    rows = Rows()
    found = windows([*rows.load(5.3, ratio=1.0, pauses=False), *rows.load(6.0, ratio=0.9, pauses=False)])
    # The first window of rows is cut short; a tenth of the third has the old clock, too little for a plateau.
    assert [one.kind for one in found] == [LoadKind.COMPUTE] * 2 + [LoadKind.CHANGING, LoadKind.COMPUTE]


def test_few_rows_and_gaps_show_nothing() -> None:
    (whole,) = [joined_frames([*Rows().load(3.0)])]
    values = whole.values.copy()
    values[5:, :, 0] = np.nan
    cut = Frame(spec=SPEC, time_ns=whole.time_ns, values=values, fresh=whole.fresh)
    assert windows([cut, *_later(whole)]) == []


def _later(frame: Frame) -> list[Frame]:
    return [Frame(spec=SPEC, time_ns=frame.time_ns[:1] + WINDOW_NS, values=frame.values[:1], fresh=frame.fresh[:1])]


def test_a_clock_that_is_set_back_drops_the_rows_before_it_and_nothing_fails() -> None:
    cutter = WindowCutter(SPEC)
    whole = joined_frames([*Rows().load(4.0)])
    early = Frame(spec=SPEC, time_ns=whole.time_ns - 3600 * 10**9, values=whole.values, fresh=whole.fresh)
    found = [one for frame in (whole, early) for one in cutter.feed(frame)]
    assert len(found) == 2


@given(cuts=st.lists(st.integers(1, 239), max_size=20))
def test_windows_do_not_depend_on_how_the_rows_were_cut(cuts: list[int]) -> None:
    whole = joined_frames([*Rows().load(12.0)])
    edges = [0, *sorted(set(cuts)), len(whole)]
    parts = [whole.rows(start, stop) for start, stop in pairwise(edges)]
    assert windows(parts) == windows([whole])
