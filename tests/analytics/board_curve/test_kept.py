"""Learnt curves over a restart."""

import json
from dataclasses import replace

import numpy as np
import pytest

from analytics.board_curve.kept import read_boards
from analytics.board_curve.learner import BoardLearner
from telemetry.entities import Entity
from telemetry.frames import Frame
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
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
