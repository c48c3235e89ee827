"""Learnt curves over a restart."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.board_curve.kept import KeptBoard, kept_of, pack_boards, read_boards
from analytics.board_curve.learner import BoardLearner
from analytics.board_curve.learning import begin, learn
from analytics.board_curve.windows import LoadKind, LoadWindow
from physics.board_parts import curve_of
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity
from telemetry.frames import Frame
from telemetry.gpu import REASON_POWER_CAP
from tests.analytics.board_curve.rows import GPUS, MAX_MHZ, SPEC, Rows
from tests.analytics.board_curve.test_learning import CLOCKS, learner


def taught() -> BoardLearner:
    found, rows = learner(), Rows()
    for ratio in (1.0, 0.8, 0.9):
        for frame in rows.load(40.0, ratio=ratio):
            found.feed(frame)
    for frame in rows.idle(12.0, power_w=70.0):
        found.feed(frame)
    return found


def of_gpus(gpus: tuple[Entity, ...]) -> BoardLearner:
    return BoardLearner([replace(SPEC, entities=gpus)], supported_mhz=CLOCKS)


def test_a_restart_changes_no_prediction_and_learning_goes_on() -> None:
    before, after = taught(), learner()
    found = after.take_learnt(before.learnt(0)(), 0)
    assert (found.is_whole, found.summary) == (True, "2 of 2 boards")
    for gpu in GPUS:
        old, new = before.states[gpu.id], after.states[gpu.id]
        assert new.curve.predict(300.0, 1.0, 0.6).high_w == pytest.approx(
            old.curve.predict(300.0, 1.0, 0.6).high_w, rel=1e-4
        )
        assert (new.seen_s, new.kind_s, new.load_w, new.curve.steps) == (
            old.seen_s,
            old.kind_s,
            old.load_w,
            old.curve.steps,
        )
        assert after.curves[gpu.id] is new.curve
    rows = Rows()
    for ratio in (1.0, 0.7):
        for frame in rows.load(30.0, ratio=ratio):
            after.feed(frame)
    assert after.states[GPUS[0].id].curve.steps == before.states[GPUS[0].id].curve.steps + 1


def test_the_same_curves_give_the_same_bytes_after_a_restart() -> None:
    blob, after = taught().learnt(0)(), learner()
    after.take_learnt(blob, 0)
    assert after.learnt(0)() == blob


def test_a_board_that_is_absent_is_kept_for_the_next_start_and_another_one_begins_from_the_table() -> None:
    blob = taught().learnt(0)()
    one = of_gpus(GPUS[:1])
    found = one.take_learnt(blob, 0)
    assert (found.is_whole, found.summary) == (False, "1 of 2 boards; absent: gpu:GPU-1")
    both = learner()
    assert both.take_learnt(one.learnt(0)(), 0).is_whole
    other = of_gpus((replace(GPUS[0], tags=(("model", "NVIDIA H100 PCIe"),)), GPUS[1]))
    assert other.take_learnt(blob, 0).summary == "1 of 2 boards; from the table of parts again: gpu:GPU-0"
    assert GPUS[0].id not in other.states


def test_a_board_whose_highest_clock_comes_with_its_rows_is_restored_with_the_first_of_them() -> None:
    model = (("model", "NVIDIA A900-SXM9"),)
    gpus = tuple(replace(gpu, tags=model) for gpu in GPUS)
    specs = [
        replace(SPEC, entities=gpus),
        replace(SPEC, name="gpu_rare", entities=gpus, signals=("max_sm_clock_mhz",)),
    ]
    clocks = Frame(
        spec=specs[1], time_ns=np.array([1]), values=np.full((1, 2, 1), MAX_MHZ), fresh=np.ones((1, 2, 1), bool)
    )

    def fed(found: BoardLearner, ratios: tuple[float, ...]) -> BoardLearner:
        found.feed(clocks)
        rows = Rows()
        for frame in (frame for ratio in ratios for frame in rows.load(40.0, ratio=ratio)):
            found.feed(replace(frame, spec=specs[0]))
        return found

    before, after = fed(BoardLearner(specs), (1.0, 0.8)), BoardLearner(specs)
    after.take_learnt(before.learnt(0)(), 0)
    assert after.learnt(0)() == before.learnt(0)()
    fed(after, (0.8,))
    assert after.states[gpus[0].id].curve.steps == before.states[gpus[0].id].curve.steps == 1


def test_a_file_of_a_version_without_bounds_of_the_idle_power_is_read() -> None:
    document = json.loads(taught().learnt(0)())
    for board in document["boards"].values():
        for name in ("mean_per_idle_w", "other_w", "other_ratio", "other_kind", "clocks_mhz", "clock_s"):
            del board[name]
    after = learner()
    assert after.take_learnt(json.dumps(document).encode(), 0).is_whole
    state = after.states[GPUS[0].id]
    assert (state.curve.steps, state.clock_s) == (2, {})
    assert state.curve.idle_sd_w == pytest.approx(0.05 * 70.0, abs=0.1)


@given(
    windows=st.lists(
        st.builds(
            LoadWindow,
            end_ns=st.integers(1, 12).map(lambda gap: gap * NS_PER_S),
            kind=st.sampled_from([LoadKind.COMPUTE, LoadKind.COMPUTE, LoadKind.IDLE, LoadKind.CAPPED]),
            power_w=st.floats(0.0, 20_000.0) | st.sampled_from([0.3, 1.0, 30.0, 60.0, 66.0, 100.0, 400.0]),
            clock_mhz=st.floats(1.0, 20_000.0) | st.sampled_from([0.0, 210.0, 735.0, 1410.0]),
        ),
        max_size=30,
    )
)
def test_whatever_a_board_showed_can_be_saved_and_its_bounds_are_in_order(windows: list[LoadWindow]) -> None:
    curve = curve_of("NVIDIA A100-SXM4-80GB")
    assert curve is not None
    state, now_ns = begin(curve, model="NVIDIA A100-SXM4-80GB", max_mhz=MAX_MHZ, idle_most_w=160.0), 0
    for window in windows:
        now_ns += window.end_ns
        state = learn(state, replace(window, end_ns=now_ns))
        KeptBoard.model_validate_json(kept_of(state).model_dump_json())
        for power_w, at, to in (
            (1.0, 1.0, 0.5),
            (300.0, 0.5, 1.0),
            (state.load_w or 50.0, state.load_ratio or 1.0, 0.7),
        ):
            found = state.curve.predict(power_w, at, to)
            assert 0.0 <= found.low_w <= found.power_w <= found.high_w < math.inf
            assert state.curve.upper_curve(power_w, at).heights[-1] == 1.0


def test_the_bounds_of_the_idle_power_and_the_clocks_seen_survive_a_restart() -> None:
    before, rows = learner(), Rows()
    for frame in (frame for ratio in (1.0, 0.8) for frame in rows.load(30.0, ratio=ratio)):
        before.feed(frame)
    for frame in rows.load(9.0, reasons=REASON_POWER_CAP):
        before.feed(frame)
    after = learner()
    after.take_learnt(before.learnt(0)(), 0)
    old, new = (one.states[GPUS[0].id] for one in (before, after))
    assert (new.curve.idle_sd_w, new.clock_s) == (old.curve.idle_sd_w, old.clock_s)
    assert (new.other_w, new.other_kind) == (old.other_w, LoadKind.CAPPED)
    assert new.other_w == pytest.approx(390.0, rel=0.03)
    assert np.allclose(new.curve.mean_per_idle_w, old.curve.mean_per_idle_w, rtol=1e-4)
    assert np.any(new.curve.mean_per_idle_w)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda board: board["mean_per_idle_w"].pop(), "mean_per_idle_w has no slope per clock of the curve"),
        (lambda board: board.update(clocks_mhz=[1410.0, 210.0]), "clocks_mhz does not ascend"),
        (lambda board: board.update(clock_s={"fast": 3.0}), "clock_s has a key that is no clock"),
        (lambda board: board.update(other_w=-1.0), "boards.gpu:GPU-0.other_w"),
        (lambda board: board.update(other_kind="odd"), "boards.gpu:GPU-0.other_kind"),
        (lambda board: board.update(max_mhz=-1.0), "boards.gpu:GPU-0.max_mhz"),
        (lambda board: board["mean"].pop(), "mean and covariance are no curve"),
        (lambda board: board.update(idle_w=None), "boards.gpu:GPU-0.idle_w"),
        (lambda board: board.update(idle_w="70"), "boards.gpu:GPU-0.idle_w"),
        (lambda board: board.update(more=1), "boards.gpu:GPU-0.more"),
        (lambda board: board["covariance"][0].__setitem__(0, -5.0), "mean and covariance are no curve"),
    ],
)
def test_a_damaged_file_is_refused_whole_with_the_place_and_changes_nothing(change: object, reason: str) -> None:
    document = json.loads(taught().learnt(0)())
    assert callable(change)
    change(document["boards"]["gpu:GPU-0"])
    after = learner()
    with pytest.raises(ValueError, match=reason.replace(".", r"\.")) as err:
        after.take_learnt(json.dumps(document).encode(), 0)
    assert "\n" not in str(err.value)
    assert not after.states


@pytest.mark.parametrize("blob", [b"", b"{", b"[]", b'{"version": 2, "boards": {}}', b"\xff\xfe", b'{"version": 1}'])
def test_what_is_no_such_file_is_refused_in_one_line(blob: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected") as err:
        read_boards(blob)
    assert "\n" not in str(err.value)


def test_no_state_is_changed_by_packing_it_in_another_thread() -> None:
    found = taught()
    mean = found.states[GPUS[0].id].curve.mean.copy()
    pack = found.learnt(0)
    rows = Rows()
    for ratio in (1.0, 0.7):
        for frame in rows.load(30.0, ratio=ratio):
            found.feed(frame)
    kept = read_boards(pack())["gpu:GPU-0"]
    assert np.allclose(kept.mean, mean, atol=1e-5)
    assert kept.max_mhz == MAX_MHZ


def test_a_board_with_an_impossible_load_is_left_out_and_the_others_are_kept() -> None:
    first, second = taught().states.items()
    blob = pack_boards(dict([first, (second[0], replace(second[1], load_w=30_000.0))]), {})
    assert list(read_boards(blob)) == [first[0]]
